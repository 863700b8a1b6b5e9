// SPDX-License-Identifier: BSD-3-Clause
// Which of many boxes meet a box, whatever their arrangement. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "cairn/box.hpp"

namespace cairn {

/// A binary tree of boxes around boxes. Each node is halved in the dimension in which the halves reach into
/// each other least. Of boxes that planes can cut apart, as those of shards, a query looks at O(log n + k)
/// for k that it finds; of others at more, up to O(n^(1-1/d) + k) for boxes that do not overlap. Building
/// takes O(d n log n).
class BoxTree {
 public:
  BoxTree() = default;
  /// Gives box i of `count`, all of `ndim`. Empty ones are passed over.
  BoxTree(std::size_t ndim, std::size_t count, const std::function<BoxView(std::size_t)>& box_at);

  /// Visits each box that meets `wanted`, once, in no promised order.
  void for_each_overlap(BoxView wanted, const std::function<void(std::size_t)>& visit) const;

 private:
  static constexpr std::size_t kLeafBoxes = 8;
  struct Node {
    std::uint32_t begin, end;  // in boxes_
    std::uint32_t right = 0;   // the second child; the first one comes next. 0: a leaf
  };
  struct Split {
    std::size_t dim;
    double reach;  // of the halves into each other, against the whole
  };

  std::int64_t begin_of(std::uint32_t box, std::size_t dim) const { return ranges_[2 * (box * ndim_ + dim)]; }
  std::int64_t end_of(std::uint32_t box, std::size_t dim) const {
    return ranges_[2 * (box * ndim_ + dim) + 1];
  }
  void build(std::uint32_t begin, std::uint32_t end);
  void halve(std::uint32_t begin, std::uint32_t end, std::size_t dim);
  double reach(std::uint32_t begin, std::uint32_t end, std::size_t dim) const;
  static bool meets(const std::int64_t* ranges, BoxView wanted);

  std::size_t ndim_ = 0;
  std::vector<std::int64_t> ranges_;  // begin and end of each box, dimension by dimension
  std::vector<std::uint32_t> boxes_;  // in order of leaves
  std::vector<Node> nodes_;
  std::vector<std::int64_t> bounds_;  // of nodes, as ranges_
};

}  // namespace cairn
