// SPDX-License-Identifier: BSD-3-Clause
// A live state in place of a directory: the memory of each rank is a file of it, which that rank reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cairn/checkpoint.hpp"
#include "cairn/communicator.hpp"
#include "cairn/metadata.hpp"
#include "checkpoint/gathered_files.hpp"
#include "checkpoint/save_parts.hpp"
#include "engine/packed_items.hpp"
#include "engine/remote_reads.hpp"

namespace cairn {

struct LiveSite {
  std::string directory;             ///< a name; nothing is there
  std::vector<GatheredFile> files;   ///< of ranks that have something; the catalogue's, in its order
  bool all_write = false;            ///< else rank 0 alone
  DeviceAnswers devices;             ///< of this rank's file; a link only where all ranks have one
  Catalog catalog;                   ///< rank 0's; chunks are bare (formats/dcp/bare_source.hpp)
  std::uint64_t metadata_bytes = 0;  ///< rank 0's; of the `.metadata` that a save would write
};

/// Collective. `items` are those of the rank's part of the plan; rank 0's `mode` counts.
LiveSite describe_live(Communicator& comm, const SharedPlan& plan, const PackedItems& items, WriteMode mode);

}  // namespace cairn
