// SPDX-License-Identifier: BSD-3-Clause
// Reads a box of a stored chunk from its file into a strided target in memory. Local; one object per thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/source.hpp"
#include "tensor/strided_copy.hpp"

namespace cairn {

/// Contiguous on both sides: one read, straight into the target. Dense on the source's side: one read of the
/// span into the scratch buffer, then copies in memory. Sparse: cut along the outermost source dimension
/// until one of the two applies.
class BoxReader {
 public:
  /// `scratch` bounds a single read that is not straight into the target; at least 64 KiB.
  BoxReader(Source& source, std::span<std::byte> scratch) : source_(source), scratch_(scratch) {}

  /// `dims` of the box in any order; its first element lies at `byte_offset` of the place's file and goes to
  /// `target`.
  void read(const ChunkPlace& place, std::uint64_t byte_offset, std::vector<CopyDim> dims, std::byte* target,
            std::uint64_t element_bytes);

 private:
  void read_sorted(const ChunkPlace& place, std::uint64_t byte_offset, std::span<const CopyDim> dims,
                   std::byte* target);
  void read_span(const ChunkPlace& place, std::uint64_t byte_offset, std::span<const CopyDim> dims,
                 std::byte* target, std::uint64_t span_bytes);
  bool fits_scratch(std::span<const CopyDim> dims) const;
  std::uint64_t span_bytes(std::span<const CopyDim> dims) const;

  Source& source_;
  std::span<std::byte> scratch_;
  std::uint64_t element_bytes_ = 1;
};

}  // namespace cairn
