// SPDX-License-Identifier: BSD-3-Clause
#include "plan/box_tree.hpp"

#include <algorithm>
#include <limits>

namespace cairn {

BoxTree::BoxTree(std::size_t ndim, std::size_t count, const std::function<BoxView(std::size_t)>& box_at)
    : ndim_(ndim), ranges_(2 * ndim * count) {
  for (std::size_t i = 0; i < count; ++i) {
    const BoxView box = box_at(i);
    if (box.empty()) continue;
    boxes_.push_back(static_cast<std::uint32_t>(i));
    for (std::size_t d = 0; d < ndim; ++d) {
      ranges_[2 * (i * ndim + d)] = box.offsets[d];
      ranges_[2 * (i * ndim + d) + 1] = box.offsets[d] + box.sizes[d];
    }
  }
  if (!boxes_.empty()) build(0, static_cast<std::uint32_t>(boxes_.size()));
}

// Halving keeps the depth, and so the recursion, at log n.
void BoxTree::build(std::uint32_t begin, std::uint32_t end) {
  const std::size_t node = nodes_.size();
  nodes_.push_back({begin, end});
  for (std::size_t d = 0; d < ndim_; ++d) {
    std::int64_t low = std::numeric_limits<std::int64_t>::max(), high = 0;
    for (std::uint32_t i = begin; i < end; ++i) {
      low = std::min(low, begin_of(boxes_[i], d));
      high = std::max(high, end_of(boxes_[i], d));
    }
    bounds_.push_back(low);
    bounds_.push_back(high);
  }
  if (end - begin <= kLeafBoxes) return;
  Split best{0, std::numeric_limits<double>::infinity()};
  std::size_t halved = ndim_;
  for (std::size_t d = 0; d < ndim_ && best.reach > 0; ++d) {
    halve(begin, end, halved = d);
    const auto extent =
        static_cast<double>(bounds_[2 * (node * ndim_ + d) + 1] - bounds_[2 * (node * ndim_ + d)]);
    if (const double reaches = reach(begin, end, d) / extent; reaches < best.reach) best = {d, reaches};
  }
  if (halved != best.dim && ndim_ > 0) halve(begin, end, best.dim);
  const std::uint32_t middle = begin + (end - begin) / 2;
  build(begin, middle);
  nodes_[node].right = static_cast<std::uint32_t>(nodes_.size());
  build(middle, end);
}

void BoxTree::halve(std::uint32_t begin, std::uint32_t end, std::size_t dim) {
  const auto less = [&](std::uint32_t a, std::uint32_t b) {
    const std::int64_t at_a = begin_of(a, dim), at_b = begin_of(b, dim);
    return at_a != at_b ? at_a < at_b : a < b;
  };
  const auto at = boxes_.begin();
  std::nth_element(at + begin, at + begin + (end - begin) / 2, at + end, less);
}

double BoxTree::reach(std::uint32_t begin, std::uint32_t end, std::size_t dim) const {
  const std::uint32_t middle = begin + (end - begin) / 2;
  std::int64_t left_end = 0, right_begin = std::numeric_limits<std::int64_t>::max();
  for (std::uint32_t i = begin; i < middle; ++i) left_end = std::max(left_end, end_of(boxes_[i], dim));
  for (std::uint32_t i = middle; i < end; ++i) right_begin = std::min(right_begin, begin_of(boxes_[i], dim));
  return static_cast<double>(left_end - right_begin);
}

bool BoxTree::meets(const std::int64_t* ranges, BoxView wanted) {
  for (std::size_t d = 0; d < wanted.ndim(); ++d) {
    if (ranges[2 * d] >= wanted.offsets[d] + wanted.sizes[d] || ranges[2 * d + 1] <= wanted.offsets[d])
      return false;
  }
  return true;
}

void BoxTree::for_each_overlap(BoxView wanted, const std::function<void(std::size_t)>& visit) const {
  if (nodes_.empty() || wanted.empty()) return;
  std::vector<std::uint32_t> open{0};
  while (!open.empty()) {
    const std::uint32_t at = open.back();
    const Node& node = nodes_[at];
    open.pop_back();
    if (!meets(bounds_.data() + 2 * at * ndim_, wanted)) continue;
    if (node.right != 0) {
      open.push_back(node.right);
      open.push_back(at + 1);
      continue;
    }
    for (std::uint32_t i = node.begin; i < node.end; ++i) {
      if (meets(ranges_.data() + 2 * boxes_[i] * ndim_, wanted)) visit(boxes_[i]);
    }
  }
}

}  // namespace cairn
