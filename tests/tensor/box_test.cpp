// SPDX-License-Identifier: BSD-3-Clause
#include "cairn/box.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "failure_of.hpp"

namespace cairn {
namespace {

using Shape = std::vector<std::int64_t>;
constexpr auto most = std::numeric_limits<std::int64_t>::max();

TEST(ElementCount, IsExactOrCorrupt) {
  EXPECT_EQ(element_count(Shape{}), 1);
  EXPECT_EQ(element_count(Shape{3, 0, 5}), 0);
  EXPECT_EQ(element_count(Shape{most}), most);
  EXPECT_EQ(failure_of([] { element_count(Shape{most, 2}); }).kind(), ErrorKind::corrupt);
  EXPECT_EQ(failure_of([] { element_count(Shape{-1}); }).kind(), ErrorKind::corrupt);
}

TEST(Inside, DoesNotWrapAtTheEndOfTheRange) {
  const Shape shape{4, 3};
  EXPECT_TRUE(inside(Box{{0, 0}, {4, 3}}, shape));
  EXPECT_TRUE(inside(Box{{4, 3}, {0, 0}}, shape));
  EXPECT_FALSE(inside(Box{{1, 0}, {4, 3}}, shape));
  EXPECT_FALSE(inside(Box{{-1, 0}, {1, 1}}, shape));
  EXPECT_FALSE(inside(Box{{most, 0}, {most, 1}}, shape));
  EXPECT_FALSE(inside(Box{{0}, {4}}, shape));
}

TEST(Intersect, HalfOpenBoxesThatTouchShareNothing) {
  Box out;
  EXPECT_FALSE(overlaps(Box{{0}, {3}}, Box{{3}, {2}}));
  EXPECT_FALSE(intersect(Box{{0}, {3}}, Box{{3}, {2}}, out));
  ASSERT_TRUE(intersect(Box{{0, 5}, {3, 5}}, Box{{2, 0}, {9, 6}}, out));
  EXPECT_EQ(out.offsets, (Shape{2, 5}));
  EXPECT_EQ(out.sizes, (Shape{1, 1}));
}

TEST(Intersect, ScalarsAndEmptyBoxes) {
  Box out;
  EXPECT_TRUE(intersect(Box{}, Box{}, out));
  EXPECT_FALSE(overlaps(Box{{1}, {0}}, Box{{0}, {3}}));
  EXPECT_FALSE(BoxView(Box{}).empty());
  EXPECT_TRUE((BoxView(Box{{0, 0}, {2, 0}}).empty()));
}

TEST(ContiguousStrides, CountAnEmptyDimensionAsOne) {
  EXPECT_EQ(contiguous_strides(Shape{}), Shape{});
  EXPECT_EQ(contiguous_strides(Shape{2, 3, 4}), (Shape{12, 4, 1}));
  EXPECT_EQ(contiguous_strides(Shape{3, 0, 5}), (Shape{5, 5, 1}));
}

}  // namespace
}  // namespace cairn
