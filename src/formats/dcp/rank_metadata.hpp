// SPDX-License-Identifier: BSD-3-Clause
// Directories that torch.distributed.checkpoint saved with use_collectives=False: `__0.metadata`,
// `__1.metadata`, … in place of one `.metadata`. Each lists what its rank wrote, with the sizes of the whole;
// what ranks hold alike is in the file of each. Local.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/storage.hpp"
#include "formats/dcp/metadata_decoder.hpp"

namespace cairn::dcp {

/// Of "__3.metadata".
std::optional<int> metadata_rank(std::string_view name);
/// The name of the file that a directory's metadata begins with: `.metadata`, or `__0.metadata` where there
/// is no `.metadata`.
std::string first_metadata_name(FileSystem& files, const std::string& directory);
/// Throws corrupt when a file between the first and the last is missing, and as decode_metadata().
DecodedMetadata decode_rank_metadata(FileSystem& files, const std::string& directory, FaultList& faults);

/// The metadata of ranks 0, 1, … as one. Entries are in order of their first appearance, and what several
/// ranks have is the lowest's. Tensors whose dtype or shape differs between ranks are faults; whether the
/// chunks of all make up the tensor is for the check of the structure.
DecodedMetadata join_rank_metadata(std::span<const DecodedMetadata> ranks, FaultList& faults);

}  // namespace cairn::dcp
