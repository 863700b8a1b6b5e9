// SPDX-License-Identifier: BSD-3-Clause
#include "engine/shared_box.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace cairn {
namespace {

using Shape = std::vector<std::int64_t>;

// Element e of the chunk is at strides · e.
ChunkPlace row_major(const Box& stored) {
  ChunkPlace place;
  place.strides = contiguous_strides(stored.sizes);
  return place;
}

TEST(ElementRun, OfABoxIsBoxesOfTheTensor) {
  const Box box{{2, 3}, {4, 5}};
  const ElementRun run{box, 1, 3, 12, nullptr};
  std::vector<Box> found;
  run.for_each_box([&](BoxView inner) {
    found.push_back({{inner.offsets.begin(), inner.offsets.end()}, {inner.sizes.begin(), inner.sizes.end()}});
  });
  ASSERT_EQ(found.size(), 3u);  // two elements of the first row, a row, two elements of the third
  EXPECT_EQ(found[0].offsets, (Shape{2, 6}));
  EXPECT_EQ(found[0].sizes, (Shape{1, 2}));
  EXPECT_EQ(found[1].offsets, (Shape{3, 3}));
  EXPECT_EQ(found[1].sizes, (Shape{1, 5}));
  EXPECT_EQ(found[2].offsets, (Shape{4, 3}));
  EXPECT_EQ(found[2].sizes, (Shape{1, 2}));
}

TEST(SharedBox, CountsFromTheFirstElementOfTheRunsBox) {
  const Box box{{2, 3}, {4, 5}}, stored{{3, 0}, {10, 5}};
  const ElementRun run{box, 4, 5, 20, nullptr};
  SharedBox shared;
  ASSERT_TRUE(share(run, Box{{3, 3}, {3, 5}}, stored, row_major(stored), shared));
  EXPECT_EQ(shared.from_byte, 3u * 4);  // [3, 3] is element 3 of the chunk
  EXPECT_EQ(shared.to_byte, 0u);        // and the run's first
  EXPECT_EQ(shared.element_count(), 6u);
  EXPECT_FALSE(shared.has_first);
  EXPECT_FALSE(share(run, Box{{2, 3}, {1, 5}}, stored, row_major(stored), shared));
}

TEST(ReadsInRuns, ByRowsAlwaysByColumnsOnlyWhereAChunkIsOneRowOrWhole) {
  const Shape shape{10, 12};
  const Box rows{{2, 0}, {3, 12}}, columns{{0, 4}, {10, 4}};
  EXPECT_TRUE(reads_in_runs(rows, shape, Box{{0, 0}, {10, 12}}));
  EXPECT_TRUE(reads_in_runs(rows, shape, Box{{0, 6}, {10, 6}}));
  EXPECT_FALSE(reads_in_runs(columns, shape, Box{{0, 0}, {10, 12}}));
  EXPECT_FALSE(reads_in_runs(columns, shape, Box{{3, 0}, {2, 6}}));
  EXPECT_TRUE(reads_in_runs(columns, shape, Box{{3, 0}, {1, 12}}));
  EXPECT_TRUE(reads_in_runs(columns, shape, Box{{0, 4}, {10, 4}}));
  EXPECT_TRUE(reads_in_runs(Box{{0, 0}, {10, 12}}, shape, Box{{3, 4}, {5, 6}}));
}

}  // namespace
}  // namespace cairn
