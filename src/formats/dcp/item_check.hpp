// SPDX-License-Identifier: BSD-3-Clause
// What the metadata claims of an item, against what the item says of itself. Local.
#pragma once

#include <cstdint>

#include "cairn/metadata.hpp"
#include "formats/torch_file/archive_check.hpp"
#include "formats/torch_file/archive_index.hpp"
#include "storage/sequential_reader.hpp"

namespace cairn::dcp {

/// The item of a tensor's chunk.
struct ChunkClaim {
  DType dtype;
  BoxView box;
};

/// Whether the item at [base, base + bytes) of the reader's file is a zip archive, by its first bytes or by
/// its last: damage to one of them must not hide it.
bool is_archive(std::uint64_t base, std::uint64_t bytes, SequentialReader& reader);

/// The item can be read as a tensor of that dtype and shape, and its storage is there.
void check_chunk(const ChunkClaim& claim, const torch_file::ArchiveIndex& index, std::uint64_t base,
                 SequentialReader& reader, torch_file::Findings& findings);

/// The item can be read as some value, and the storages in it are there.
void check_object(const torch_file::ArchiveIndex& index, std::uint64_t base, SequentialReader& reader,
                  torch_file::Findings& findings);

}  // namespace cairn::dcp
