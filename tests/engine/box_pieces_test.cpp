// SPDX-License-Identifier: BSD-3-Clause
#include "engine/box_pieces.hpp"

#include <gtest/gtest.h>

#include "plan/plan_fixture.hpp"

namespace cairn {
namespace {

using Shape = std::vector<std::int64_t>;

// One after the other they are the box in row-major order.
TEST(BoxPieces, FollowEachOtherInRowMajorOrder) {
  for (const Shape& sizes : {Shape{}, Shape{1}, Shape{7}, Shape{3, 5}, Shape{2, 1, 4}, Shape{4, 3, 2, 3}}) {
    for (const std::int64_t most : {1, 2, 3, 5, 6, 7, 24, 1000}) {
      const BoxPieces pieces(sizes, most);
      std::int64_t next = 0;
      for (std::uint64_t i = 0; i < pieces.count(); ++i) {
        const Box piece = pieces.piece(i);
        EXPECT_LE(element_count(piece.sizes), most);
        EXPECT_GE(element_count(piece.sizes), 1);
        for_each_element(piece, [&](const Shape& at) { EXPECT_EQ(linear(sizes, at), next++); });
      }
      EXPECT_EQ(next, element_count(sizes));
    }
  }
}

TEST(BoxPieces, AnEmptyBoxHasNone) {
  EXPECT_EQ(BoxPieces(Shape{3, 0}, 10).count(), 0u);
  EXPECT_EQ(BoxPieces(Shape{0}, 1).count(), 0u);
}

TEST(BoxPieces, AreFewWhereTheBoxIsLarge) {
  EXPECT_EQ(BoxPieces(Shape{std::int64_t{1} << 33}, 1 << 20).count(), std::uint64_t{1} << 13);
  EXPECT_EQ(BoxPieces(Shape{std::int64_t{1} << 31, 3}, 1 << 20).count(), 6145u);
}

}  // namespace
}  // namespace cairn
