// SPDX-License-Identifier: BSD-3-Clause
// Extents and arrangements that only damage has.
#include <gtest/gtest.h>

#include <limits>

#include "cairn/error.hpp"
#include "failure_of.hpp"
#include "plan/chunk_grid.hpp"

namespace cairn {
namespace {

using Shape = std::vector<std::int64_t>;

BoxAt over(const std::vector<Box>& boxes) {
  return [&boxes](std::size_t i) { return BoxView(boxes[i]); };
}

TEST(TilingLimits, TheLongestExtentDoesNotOverflow) {
  const std::vector<Box> boxes{{{0}, {1}}};
  const auto fault = find_tiling_fault(Shape{std::numeric_limits<std::int64_t>::max()}, 1, over(boxes));
  ASSERT_TRUE(fault);
  EXPECT_FALSE(fault->overlap);
  EXPECT_EQ(fault->element, Shape{1});
}

// 2^12 corners a box would be 2^24 in all.
TEST(TilingLimits, ManyBoxesInManyDimensionsAreRefused) {
  const Shape shape(12, 2);
  std::vector<Box> boxes;
  for (std::int64_t i = 0; i < 4095; ++i) {
    Box box{Shape(12), Shape(12, 1)};
    for (std::size_t d = 0; d < 12; ++d) box.offsets[d] = i >> d & 1;
    boxes.push_back(box);
  }
  const Error error = failure_of([&] { find_tiling_fault(shape, boxes.size(), over(boxes)); });
  EXPECT_EQ(error.kind(), ErrorKind::unsupported);
}

}  // namespace
}  // namespace cairn
