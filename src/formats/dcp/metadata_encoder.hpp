// SPDX-License-Identifier: BSD-3-Clause
// Writes `.metadata`: the pickle that torch 2.13 on CPython 3.11 would write of the Metadata object that a
// catalogue stands for (docs/format-dcp.md). Byte for byte where the same strings are the same objects; torch
// since 2.4 reads it. Local; pure but for the sink.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cairn/metadata.hpp"
#include "pickle/frame_writer.hpp"

namespace cairn::dcp {

/// What a checkpoint's metadata says of the checkpoint as a whole.
struct StorageMeta {
  std::string checkpoint_id;  ///< the directory's path, as pathlib would take it
  std::string save_id;        ///< a UUID
  /// Further attributes of the Metadata object, texts by name; readers that don't know them pass them over.
  std::vector<std::pair<std::string, std::string>> attributes = {};
};

/// Writes the pickle to `sink`, in pieces of about 64 KiB, in order. Tensors and objects come in the order of
/// the entries, their chunks in the catalogue's; items come file by file in the catalogue's order of files,
/// each file's by byte offset, as torch gathers them from its ranks. Entries with a path come once more in
/// planner_data, in `path_order` (indices of all of them; empty: in the order of the entries); without any,
/// the state was not flattened. Chunks without a file get no item. A tensor's chunks must differ in their
/// offsets. Holds 8 bytes a chunk besides the catalogue. Throws invalid_argument for texts that are no UTF-8,
/// unsupported for more than 2^32 chunks of one tensor or 2^32 - 1 pickled objects, and what `sink` throws.
void encode_metadata(const Catalog& catalog, const StorageMeta& meta,
                     std::span<const std::uint32_t> path_order, const pickle::FrameWriter::Sink& sink);

}  // namespace cairn::dcp
