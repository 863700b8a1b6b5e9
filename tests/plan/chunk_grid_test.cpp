// SPDX-License-Identifier: BSD-3-Clause
#include "plan/chunk_grid.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "cairn/error.hpp"
#include "plan/linear.hpp"
#include "plan/windows.hpp"

namespace cairn {
namespace {

using Shape = std::vector<std::int64_t>;

BoxAt over(const std::vector<Box>& boxes) {
  return [&boxes](std::size_t i) { return BoxView(boxes[i]); };
}

std::vector<Box> random_cuts(const Shape& shape, std::mt19937& random, int cuts) {
  std::vector<Box> boxes{{Shape(shape.size(), 0), shape}};
  for (int i = 0; i < cuts; ++i) {
    const std::size_t at = random() % boxes.size(), dim = random() % shape.size();
    Box& box = boxes[at];
    if (box.sizes[dim] < 2) continue;
    const auto cut = 1 + static_cast<std::int64_t>(random()) % (box.sizes[dim] - 1);
    Box rest = box;
    rest.offsets[dim] += cut;
    rest.sizes[dim] -= cut;
    box.sizes[dim] = cut;
    boxes.push_back(rest);
  }
  std::ranges::shuffle(boxes, random);
  return boxes;
}

// Counts, element by element, how often each is covered.
std::vector<int> coverage(const Shape& shape, const std::vector<Box>& boxes) {
  std::vector<int> count(static_cast<std::size_t>(element_count(shape)), 0);
  const auto strides = contiguous_strides(shape);
  for (std::size_t e = 0; e < count.size(); ++e) {
    for (const Box& box : boxes) {
      bool in = true;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        const auto at = static_cast<std::int64_t>(e) / strides[d] % shape[d];
        in = in && at >= box.offsets[d] && at < box.offsets[d] + box.sizes[d];
      }
      count[e] += in ? 1 : 0;
    }
  }
  return count;
}

TEST(Tiling, RandomTilingsAreWhole) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const Shape shape{1 + static_cast<std::int64_t>(random() % 7),
                      1 + static_cast<std::int64_t>(random() % 7),
                      1 + static_cast<std::int64_t>(random() % 4)};
    const auto boxes = random_cuts(shape, random, 12);
    EXPECT_FALSE(find_tiling_fault(shape, boxes.size(), over(boxes)));
  }
}

TEST(Tiling, TheFirstWrongElementIsNamed) {
  std::mt19937 random(2);
  for (int round = 0; round < 500; ++round) {
    const Shape shape{6, 5, 3};
    auto boxes = random_cuts(shape, random, 10);
    if (round % 3 == 0) {
      boxes.erase(boxes.begin());
    } else {  // move one box, or lay a second one over
      Box moved = boxes[random() % boxes.size()];
      const std::size_t dim = random() % 3;
      moved.offsets[dim] =
          static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(shape[dim] - moved.sizes[dim] + 1));
      if (round % 3 == 1)
        boxes.push_back(moved);
      else
        boxes[random() % boxes.size()] = moved;
    }
    const auto counts = coverage(shape, boxes);
    const auto wrong = std::ranges::find_if(counts, [](int n) { return n != 1; });
    const auto fault = find_tiling_fault(shape, boxes.size(), over(boxes));
    ASSERT_EQ(fault.has_value(), wrong != counts.end());
    if (!fault) continue;
    const auto e = wrong - counts.begin();
    EXPECT_EQ(fault->element, (Shape{e / 15, e / 3 % 5, e % 3}));
    EXPECT_EQ(fault->overlap, *wrong > 1);
  }
}

TEST(Tiling, EmptyBoxesAndEmptyTensorsAreNormal) {
  const std::vector<Box> boxes{{{0, 0}, {3, 4}}, {{3, 0}, {0, 4}}};
  EXPECT_FALSE(find_tiling_fault(Shape{3, 4}, boxes.size(), over(boxes)));
  EXPECT_FALSE(find_tiling_fault(Shape{0, 4}, 0, over({})));
  const std::vector<Box> scalar{{{}, {}}};
  EXPECT_FALSE(find_tiling_fault(Shape{}, 1, over(scalar)));
  EXPECT_TRUE(find_tiling_fault(Shape{}, 0, over({})));
  EXPECT_TRUE(find_tiling_fault(Shape{3}, 0, over({})));
}

TEST(Tiling, AScalarStoredTwiceOverlaps) {
  const std::vector<Box> twice{{{}, {}}, {{}, {}}};
  const auto fault = find_tiling_fault(Shape{}, 2, over(twice));
  ASSERT_TRUE(fault);
  EXPECT_TRUE(fault->overlap);
}

TEST(Tiling, ManyCutDimensionsDoNotExplode) {
  const Shape shape(30, 2);
  std::vector<Box> boxes{{Shape(30, 0), Shape(30, 1)}, {Shape(30, 1), Shape(30, 1)}};
  EXPECT_TRUE(find_tiling_fault(shape, boxes.size(), over(boxes)));
  boxes.resize(5000, boxes[0]);
  EXPECT_THROW(find_tiling_fault(shape, boxes.size(), over(boxes)), Error);
}

// Arrangements that are no grid, and faults among many boxes. Searching pairs would take minutes.
TEST(Tiling, NoArrangementTurnsQuadratic) {
  constexpr std::int64_t n = 50000;
  std::mt19937 random(7);
  const auto fault_of = [](const Shape& shape, const std::vector<Box>& boxes) {
    return find_tiling_fault(shape, boxes.size(), over(boxes));
  };
  std::vector<Box> stairs, skew, bars, nested, same(n, {{0, 0}, {4, 4}});
  for (std::int64_t i = 0; i < n; ++i) {
    stairs.push_back({{i, 0}, {1, i + 1}});
    stairs.push_back({{i, i + 1}, {1, n - i}});
    bars.push_back(i % 2 == 0 ? Box{{i, 0}, {1, n + 1}} : Box{{0, i}, {n, 1}});
    nested.push_back({{i / 2, i / 2}, {n - i, n - i}});
  }
  std::ranges::shuffle(stairs, random);
  EXPECT_FALSE(fault_of({n, n + 1}, stairs));
  skew = stairs;
  skew.pop_back();
  EXPECT_FALSE(fault_of({n, n + 1}, skew).value().overlap);
  skew = stairs;
  skew.push_back(stairs[n]);
  EXPECT_TRUE(fault_of({n, n + 1}, skew).value().overlap);
  EXPECT_TRUE(fault_of({n, n + 1}, bars).value().overlap);
  EXPECT_TRUE(fault_of({n, n}, nested).value().overlap);
  EXPECT_TRUE(fault_of({4, 4}, same).value().overlap);
}

TEST(ChunkIndex, FindsExactlyTheBoxesThatMeet) {
  std::mt19937 random(3);
  for (int round = 0; round < 400; ++round) {
    const Shape shape{8, 6, 5};
    std::vector<Box> boxes;
    if (round % 2 == 0) {
      boxes = random_cuts(shape, random, 20);
    } else {  // a grid
      for (std::int64_t i = 0; i < 4; ++i) {
        for (std::int64_t k = 0; k < 3; ++k) boxes.push_back({{2 * i, 2 * k, 0}, {2, 2, 5}});
      }
      std::ranges::shuffle(boxes, random);
    }
    boxes.push_back({{3, 3, 3}, {0, 1, 1}});
    const ChunkIndex index(shape, boxes.size(), over(boxes));
    Box wanted{{0, 0, 0}, {0, 0, 0}};
    for (std::size_t d = 0; d < 3; ++d) {
      wanted.offsets[d] = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(shape[d]));
      wanted.sizes[d] =
          1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(shape[d] - wanted.offsets[d]));
    }
    std::multiset<std::size_t> found, expected;
    index.for_each_overlap(wanted, [&](std::size_t i) { found.insert(i); });
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      if (!BoxView(boxes[i]).empty() && overlaps(boxes[i], wanted)) expected.insert(i);
    }
    EXPECT_EQ(found, expected);
  }
}

TEST(Linear, BoxesOfARunTileItInOrder) {
  for (const Shape& shape : {Shape{7}, Shape{3, 4}, Shape{2, 3, 4}, Shape{1, 5, 1, 2}, Shape{4, 1, 3}}) {
    const auto total = element_count(shape);
    const auto strides = contiguous_strides(shape);
    for (std::int64_t begin = 0; begin <= total; ++begin) {
      for (std::int64_t end = begin; end <= total; ++end) {
        std::int64_t at = begin;
        std::size_t boxes = 0;
        for_each_box(shape, begin, end, [&](BoxView box) {
          std::int64_t first = 0;
          for (std::size_t d = 0; d < shape.size(); ++d) first += box.offsets[d] * strides[d];
          EXPECT_EQ(first, at);
          EXPECT_TRUE(inside(box, shape));
          at += element_count(box.sizes);
          ++boxes;
        });
        EXPECT_EQ(at, end);
        EXPECT_LE(boxes, 2 * shape.size() - 1);
      }
    }
  }
}

TEST(Linear, AScalarIsOneBox) {
  int boxes = 0;
  for_each_box({}, 0, 1, [&](BoxView) { ++boxes; });
  for_each_box({}, 0, 0, [&](BoxView) { ++boxes; });
  EXPECT_EQ(boxes, 1);
}

TEST(Windows, TileTheRegionAndAreOwnedOnce) {
  for (const ByteRange region : {ByteRange{100, 100}, ByteRange{100, 101}, ByteRange{64, 128},
                                 ByteRange{65, 1000}, ByteRange{0, 640}}) {
    const Windows windows(region, 64);
    std::uint64_t at = region.begin;
    for (std::uint64_t i = 0; i < windows.count(); ++i) {
      EXPECT_EQ(windows.at(i).begin, at);
      at = windows.at(i).end;
      EXPECT_TRUE(at % 64 == 0 || at == region.end);
    }
    EXPECT_EQ(at, region.end);
  }
}

std::vector<std::uint64_t> numbers_of(const WindowRuns& windows) {
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t i = 0; i < windows.count(); ++i) numbers.push_back(windows[i]);
  return numbers;
}

TEST(WindowRuns, AnyNumberOfRanksOwnsEachOnce) {
  const std::vector<std::vector<WindowRun>> holes{
      {}, {{0, 1}}, {{9, 10}}, {{7, 9}, {0, 2}, {4, 5}}, {{2, 4}, {4, 6}}, {{0, 10}}};
  for (const auto& without : holes) {
    const WindowRuns windows(10, without);
    std::vector<std::uint64_t> expected;
    for (std::uint64_t i = 0; i < 10; ++i) {
      const auto holds = [i](const WindowRun& run) { return run.begin <= i && i < run.end; };
      if (std::ranges::none_of(without, holds)) expected.push_back(i);
    }
    EXPECT_EQ(numbers_of(windows), expected);
    for (int size = 1; size < 13; ++size) {
      std::vector<std::uint64_t> all;
      for (int rank = 0; rank < size; ++rank) {
        const auto mine = numbers_of(windows.share(rank, size));
        EXPECT_LE(mine.size(), expected.size() / static_cast<std::size_t>(size) + 1);
        all.insert(all.end(), mine.begin(), mine.end());
      }
      EXPECT_EQ(all, expected);
    }
  }
}

}  // namespace
}  // namespace cairn
