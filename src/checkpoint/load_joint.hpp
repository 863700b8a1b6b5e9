// SPDX-License-Identifier: BSD-3-Clause
// Chunks of which several ranks of a node want parts that are no runs in the file: which of them are read
// together, and who wants what. Pure.
#pragma once

#include <span>
#include <vector>

#include "base/byte_writer.hpp"
#include "cairn/load.hpp"
#include "cairn/plan.hpp"
#include "engine/joint_reads.hpp"
#include "formats/source.hpp"

namespace cairn {

/// What a rank tells the first one of its node: those of its items that are no runs of their chunks. Empty
/// when it has none.
Bytes encode_scattered_items(const Source& source, const LoadPlan& plan, std::span<const ReadItem> items);

/// From what all ranks of the node told; in file order. A chunk is worth it when two ranks want something of
/// it, and all of them together a fourth of what would be read. Under `automatic` there are none when reading
/// them once saves less than kLeastSaving.
std::vector<JointChunk> find_joint_chunks(const Catalog& catalog, std::span<const Bytes> told_by_rank,
                                          ReadOnce read_once);

Bytes encode(std::span<const JointChunk> chunks);
/// Throws corrupt on what encode() did not write.
std::vector<JointChunk> decode_joint_chunks(const Catalog& catalog, std::span<const std::byte> bytes);

/// The rank's own parts of them; they speak of its items by index.
std::vector<JointPart> find_own_parts(const Source& source, const LoadPlan& plan,
                                      std::span<const ReadItem> items, std::span<const JointChunk> chunks);

}  // namespace cairn
