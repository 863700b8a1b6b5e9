// SPDX-License-Identifier: BSD-3-Clause
// The chunks of one tensor: do they tile it, and which of them meet a box. Pure. No arrangement of n chunks
// costs the check more than O(n * 2^d * log n), d counting only the dimensions that are cut.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "cairn/box.hpp"
#include "plan/box_tree.hpp"

namespace cairn {

/// Gives box i of n, each inside the tensor's shape. Cheap, called often.
using BoxAt = std::function<BoxView(std::size_t)>;

/// Boxes that lie on the cells of a grid, each cell held by exactly one box.
class ChunkGrid {
 public:
  /// nullopt when the boxes are no full grid over `shape`. Empty boxes are passed over.
  static std::optional<ChunkGrid> find(std::span<const std::int64_t> shape, std::size_t count,
                                       const BoxAt& box_at);

  /// Visits the boxes that meet `wanted`.
  void for_each_overlap(BoxView wanted, const std::function<void(std::size_t)>& visit) const;

 private:
  struct Axis {
    std::vector<std::int64_t> starts;  // of the cells, sorted
    std::size_t stride = 0;            // in cells_
  };
  std::vector<Axis> axes_;
  std::vector<std::uint32_t> cells_;  // box of each cell, row-major
};

/// Finds the boxes that meet a wanted box: by the grid, or by a tree where there is none.
class ChunkIndex {
 public:
  ChunkIndex(std::span<const std::int64_t> shape, std::size_t count, const BoxAt& box_at);
  /// Visits each non-empty box that meets `wanted`, in no promised order. A query costs O(log n + k) for the
  /// k boxes that it finds; what odd arrangements cost says BoxTree.
  void for_each_overlap(BoxView wanted, const std::function<void(std::size_t)>& visit) const;

 private:
  std::optional<ChunkGrid> grid_;
  BoxTree tree_;  // where there is no grid
};

/// The first element, in row-major order, that is not covered exactly once.
struct TilingFault {
  std::vector<std::int64_t> element;
  bool overlap;  ///< covered more than once; else not at all
};

/// nullopt when the non-empty boxes tile `shape` exactly. Every box must lie inside `shape`.
std::optional<TilingFault> find_tiling_fault(std::span<const std::int64_t> shape, std::size_t count,
                                             const BoxAt& box_at);

}  // namespace cairn
