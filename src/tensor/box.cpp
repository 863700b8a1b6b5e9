// SPDX-License-Identifier: BSD-3-Clause
#include "cairn/box.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/checked.hpp"

namespace cairn {

bool BoxView::empty() const { return std::ranges::find(sizes, 0) != sizes.end(); }

std::int64_t element_count(std::span<const std::int64_t> sizes) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) {
    if (size < 0) fail_corrupt("negative size in {}", to_string(sizes));
    if (size == 0) return 0;
    count = checked_mul(count, size, "element count");
  }
  return count;
}

bool overlaps(BoxView a, BoxView b) {
  for (std::size_t d = 0; d < a.ndim(); ++d) {
    const auto begin = std::max(a.offsets[d], b.offsets[d]);
    const auto end = std::min(a.offsets[d] + a.sizes[d], b.offsets[d] + b.sizes[d]);
    if (begin >= end) return false;
  }
  return true;
}

bool inside(BoxView inner, std::span<const std::int64_t> shape) {
  if (inner.ndim() != shape.size() || inner.offsets.size() != shape.size()) return false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    // subtraction, not addition: offsets near the end of the 64-bit range must not wrap
    if (inner.offsets[d] < 0 || inner.sizes[d] < 0 || inner.offsets[d] > shape[d]) return false;
    if (inner.sizes[d] > shape[d] - inner.offsets[d]) return false;
  }
  return true;
}

bool intersect(BoxView a, BoxView b, Box& out) {
  out.offsets.resize(a.ndim());
  out.sizes.resize(a.ndim());
  for (std::size_t d = 0; d < a.ndim(); ++d) {
    out.offsets[d] = std::max(a.offsets[d], b.offsets[d]);
    out.sizes[d] = std::min(a.offsets[d] + a.sizes[d], b.offsets[d] + b.sizes[d]) - out.offsets[d];
    if (out.sizes[d] <= 0) return false;
  }
  return true;
}

std::vector<std::int64_t> contiguous_strides(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride = checked_mul(stride, std::max<std::int64_t>(shape[d], 1), "stride");
  }
  return strides;
}

std::string to_string(std::span<const std::int64_t> values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

std::string to_string(BoxView box) {
  std::string text = "[";
  for (std::size_t d = 0; d < box.ndim(); ++d) {
    text += fmt::format("{}{}:{}", d == 0 ? "" : ", ", box.offsets[d], box.offsets[d] + box.sizes[d]);
  }
  return text + "]";
}

}  // namespace cairn
