// SPDX-License-Identifier: BSD-3-Clause
// The `.metadata` file of a DCP directory: a pickle of torch.distributed.checkpoint.metadata.Metadata, as
// every torch since 1.13 writes it (docs/format-dcp.md). Local.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/metadata.hpp"
#include "cairn/storage.hpp"

namespace cairn::dcp {

struct DecodedMetadata {
  Catalog catalog;
  std::uint64_t metadata_bytes = 0;  ///< size of the pickle
  std::string save_id;               ///< of storage_meta; empty where there is none
  std::string manifest;  ///< what the attribute cairn_manifest says (dcp/manifest.hpp); mostly empty
  std::vector<std::string> notes;  ///< harmless oddities, a sentence each
};

/// Throws corrupt for bytes that are no such pickle, unsupported for a valid one that Cairn cannot read
/// (named in the message). What is wrong with single tensors goes into `faults`; such a tensor or chunk is
/// left out of the catalogue. `where` is the file's name for messages.
DecodedMetadata decode_metadata(std::span<const std::byte> pickle, std::string_view where, FaultList& faults);
/// The same of a file, of which a window is in memory at a time. Throws what reading throws, too.
DecodedMetadata decode_metadata(File& file, std::string_view where, FaultList& faults);

}  // namespace cairn::dcp
