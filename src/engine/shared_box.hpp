// SPDX-License-Identifier: BSD-3-Clause
// What a run of an output shares with a stored chunk, as a copy. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cairn/box.hpp"
#include "cairn/tensor.hpp"
#include "formats/source.hpp"
#include "tensor/strided_copy.hpp"

namespace cairn {

/// The elements [first, last) of a box of a tensor, row-major, in memory at `into`.
struct ElementRun {
  BoxView box;
  std::uint64_t element_bytes;
  std::int64_t first, last;
  std::byte* into;

  std::uint64_t bytes() const { return static_cast<std::uint64_t>(last - first) * element_bytes; }
  /// Cuts the run into boxes of the tensor, in order, as for_each_box() in plan/linear.hpp.
  void for_each_box(const std::function<void(BoxView)>& visit) const;
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

/// Whether all that the runs of `box` share with a chunk is runs of the chunk too, likewise for the other
/// boxes that a tensor of this shape was cut into along the same dimension: then each of them is read once.
/// `stored` lies in row-major order.
bool reads_in_runs(BoxView box, std::span<const std::int64_t> shape, BoxView stored);

}  // namespace cairn
