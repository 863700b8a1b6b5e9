// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <random>

#include "plan/chunk_grid.hpp"

namespace cairn {
namespace {

using Shape = std::vector<std::int64_t>;

// Rows that are cut at another place each: no grid, and every column of the plane meets all of them.
std::vector<Box> stairs(std::int64_t n) {
  std::vector<Box> boxes;
  for (std::int64_t i = 0; i < n; ++i) {
    boxes.push_back({{i, 0}, {1, i + 1}});
    boxes.push_back({{i, i + 1}, {1, n - i}});
  }
  return boxes;
}

BoxAt over(const std::vector<Box>& boxes) {
  return [&boxes](std::size_t i) { return BoxView(boxes[i]); };
}

// With a pass over all boxes in each query this would take minutes, whichever dimension is asked for first.
TEST(BoxTree, QueriesDoNotLookAtAllBoxes) {
  constexpr std::int64_t n = 100000;
  auto boxes = stairs(n);
  auto turned = boxes;
  for (Box& box : turned) {
    std::swap(box.offsets[0], box.offsets[1]);
    std::swap(box.sizes[0], box.sizes[1]);
  }
  const ChunkIndex rows(Shape{n, n + 1}, boxes.size(), over(boxes));
  const ChunkIndex columns(Shape{n + 1, n}, turned.size(), over(turned));
  std::size_t found = 0;
  const auto count = [&](std::size_t) { ++found; };
  for (std::int64_t i = 0; i < n; ++i) {
    rows.for_each_overlap(Box{{i, i}, {1, 2}}, count);
    columns.for_each_overlap(Box{{i, i}, {2, 1}}, count);
  }
  EXPECT_EQ(found, 4u * n);
}

// Cut at random, again and again: each small query meets few boxes.
TEST(BoxTree, RandomTilingsAnswerOnlyWhatMeets) {
  std::mt19937_64 random(8);
  const Shape shape{1 << 20, 1 << 20, 1 << 10};
  std::vector<Box> boxes{{{0, 0, 0}, shape}};
  for (std::size_t i = 0; i < 60000; ++i) {
    const std::size_t at = random() % boxes.size(), dim = random() % 3;
    if (boxes[at].sizes[dim] < 2) continue;
    Box rest = boxes[at];
    const auto cut =
        1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(rest.sizes[dim] - 1));
    boxes[at].sizes[dim] = cut;
    rest.offsets[dim] += cut;
    rest.sizes[dim] -= cut;
    boxes.push_back(rest);
  }
  const ChunkIndex index(shape, boxes.size(), over(boxes));
  for (const std::size_t i : {std::size_t{0}, boxes.size() / 2, boxes.size() - 1}) {
    std::vector<std::size_t> found;
    index.for_each_overlap(boxes[i], [&](std::size_t met) { found.push_back(met); });
    EXPECT_EQ(found, std::vector<std::size_t>{i});
  }
  std::size_t found = 0;
  for (const Box& box : boxes) index.for_each_overlap(box, [&](std::size_t) { ++found; });
  EXPECT_EQ(found, boxes.size());
}

}  // namespace
}  // namespace cairn
