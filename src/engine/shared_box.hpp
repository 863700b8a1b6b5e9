// SPDX-License-Identifier: BSD-3-Clause
// What a run of an output shares with a stored chunk, as a copy. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cairn/box.hpp"
#include "cairn/tensor.hpp"
#include "formats/source.hpp"
#include "tensor/strided_copy.hpp"

namespace cairn {

/// The elements [first, last) of a tensor, row-major, in memory at `into`.
struct ElementRun {
  std::span<const std::int64_t> shape;
  std::uint64_t element_bytes;
  std::int64_t first, last;
  std::byte* into;

  std::uint64_t bytes() const { return static_cast<std::uint64_t>(last - first) * element_bytes; }
};

/// A box of elements that is both in a run and in a chunk.
struct SharedBox {
  std::uint64_t from_byte;    ///< of its first element: offset in the chunk's file
  std::uint64_t to_byte;      ///< and in the run
  std::vector<CopyDim> dims;  ///< outermost first
  bool has_first;             ///< it begins with the chunk's first element

  std::uint64_t element_count() const;
  /// It is one stretch of the run.
  bool is_run() const;
};

/// The part of `wanted`, a box inside the run, that the chunk `stored` at `place` has, written into `out`,
/// whose memory is used again; false and unspecified when they share nothing.
bool share(const ElementRun& run, BoxView wanted, BoxView stored, const ChunkPlace& place, SharedBox& out);

}  // namespace cairn
