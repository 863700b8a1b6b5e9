// SPDX-License-Identifier: BSD-3-Clause
#include "cairn/layout.hpp"

#include <gtest/gtest.h>

#include <set>

#include "cairn/error.hpp"
#include "failure_of.hpp"
#include "plan/chunk_grid.hpp"
#include "tsv.hpp"

namespace cairn {
namespace {

using Shape = std::vector<std::int64_t>;

Shape numbers(const std::string& text) {
  Shape out;
  if (text == "-") return out;
  for (const std::string& one : split(text, ',')) out.push_back(std::stol(one));
  return out;
}

Placement placement(const std::string& text) {
  if (text == "r") return Placement::replicate();
  if (text[0] == 's') return Placement::shard(std::stoul(text.substr(1)));
  const auto parts = split(text.substr(1), ':');
  return Placement::strided_shard(std::stoul(parts[0]), std::stol(parts[1]));
}

// "0:3,5:6" as 0 1 2 5.
Shape elements(const std::string& text) {
  Shape out;
  if (text == "-") return out;
  for (const std::string& range : split(text, ',')) {
    const auto ends = split(range, ':');
    for (std::int64_t at = std::stol(ends[0]); at < std::stol(ends[1]); ++at) out.push_back(at);
  }
  return out;
}

// Global coordinate of each local one, by dimension; -1 where no box says.
std::vector<Shape> held(const TensorLayout& layout, int rank) {
  std::vector<Shape> out;
  for (const std::int64_t size : layout.local_shape(rank))
    out.emplace_back(static_cast<std::size_t>(size), -1);
  layout.for_each_box(rank, [&](const OwnedBox& owned) {
    for (std::size_t d = 0; d < out.size(); ++d) {
      for (std::int64_t i = 0; i < owned.box.sizes[d]; ++i)
        out[d][static_cast<std::size_t>(owned.local_offsets[d] + i)] = owned.box.offsets[d] + i;
    }
  });
  return out;
}

TEST(Layout, EachRankHoldsWhatDTensorSays) {
  const auto rows = tsv_rows("layouts/layouts.tsv");
  ASSERT_GT(rows.size(), 1000u);
  for (const auto& row : rows) {
    SCOPED_TRACE(testing::PrintToString(row));
    std::vector<int> mesh;
    for (const std::int64_t size : numbers(row[1])) mesh.push_back(static_cast<int>(size));
    std::vector<Placement> placements;
    for (const std::string& text : split(row[2], ',')) placements.push_back(placement(text));
    const auto layout = TensorLayout::on_mesh(numbers(row[0]), Mesh(mesh), placements);
    const int rank = std::stoi(row[3]);
    EXPECT_EQ(layout.local_shape(rank), numbers(row[4]));
    const auto boxes = layout.boxes(rank);
    EXPECT_EQ(boxes.empty(), row[5] == "-" && row[0] != "-");
    if (boxes.empty()) continue;
    EXPECT_EQ(boxes[0].offsets, numbers(row[5]));
    const auto have = held(layout, rank);
    const auto expected = split(row[6], '|');
    for (std::size_t d = 0; d < have.size(); ++d) EXPECT_EQ(have[d], elements(expected[d]));
  }
}

TEST(Layout, UnevenStridedPartsAreSeveralBoxes) {
  const auto layout = TensorLayout::on_mesh({9}, Mesh({4}), {Placement::strided_shard(0, 2)});
  std::vector<std::pair<std::int64_t, std::int64_t>> at;
  layout.for_each_box(
      0, [&](const OwnedBox& owned) { at.emplace_back(owned.box.offsets[0], owned.local_offsets[0]); });
  EXPECT_EQ(at, (std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 0}, {5, 2}}));
}

TEST(Layout, AllRanksTogetherTileTheTensor) {
  for (const auto& layout :
       {TensorLayout::sharded({13, 3}, 0, 5), TensorLayout::sharded({3, 13}, 1, 16),
        TensorLayout::sharded({7, 2}, 0, std::vector<std::int64_t>{0, 4, 0, 3, 0}),
        TensorLayout::on_mesh({10, 7}, Mesh({3, 2}), {Placement::shard(0), Placement::shard(1)}),
        TensorLayout::on_mesh({11, 7}, Mesh({3, 4}), {Placement::strided_shard(0, 4), Placement::shard(0)}),
        TensorLayout::listed({2, 2}, {{{{0, 0}, {1, 2}}}, {}, {{{1, 0}, {1, 1}}, {{1, 1}, {1, 1}}}})}) {
    std::vector<Box> all;
    for (int rank = 0; rank < 16; ++rank) {
      for (Box& box : layout.boxes(rank)) all.push_back(std::move(box));
    }
    EXPECT_FALSE(
        find_tiling_fault(layout.shape(), all.size(), [&](std::size_t i) { return BoxView(all[i]); }));
  }
}

TEST(Layout, ReplicasHoldTheWholeAndOthersNothing) {
  const auto layout = TensorLayout::replicated({4, 2}, 3);
  EXPECT_EQ(layout.boxes(2)[0].sizes, (Shape{4, 2}));
  EXPECT_TRUE(layout.boxes(3).empty());
  EXPECT_TRUE(layout.boxes(-1).empty());
  EXPECT_EQ(layout.local_shape(3), (Shape{0, 0}));
  const auto scalar = TensorLayout::replicated({}, 2);
  EXPECT_EQ(scalar.boxes(1).size(), 1u);
  EXPECT_TRUE(scalar.boxes(2).empty());
}

TEST(Layout, APartOfAMeshLeavesOtherRanksOut) {
  // Every second rank of the upper half of 8.
  const Mesh mesh(std::vector<Mesh::Axis>{{2, 2}}, 4);
  const auto layout = TensorLayout::on_mesh({6}, mesh, {Placement::shard(0)});
  std::set<int> owners;
  for (int rank = 0; rank < 8; ++rank) {
    if (!layout.boxes(rank).empty()) owners.insert(rank);
  }
  EXPECT_EQ(owners, (std::set<int>{4, 6}));
  EXPECT_EQ(Mesh({2, 3}).coordinates(5), (std::vector<int>{1, 2}));
  EXPECT_EQ(Mesh(std::vector<Mesh::Axis>{{2, 1}, {3, 2}}).coordinates(5), (std::vector<int>{1, 2}));
  EXPECT_FALSE(Mesh({2, 3}).coordinates(6));
}

TEST(Layout, SixteenThousandRanksAreOneRule) {
  const auto layout = TensorLayout::on_mesh({1 << 20, 64}, Mesh({1024, 16}),
                                            {Placement::strided_shard(0, 16), Placement::shard(0)});
  std::int64_t next = 0;
  for (int tensor_rank = 0; tensor_rank < 16; ++tensor_rank) {
    for (int data_rank = 0; data_rank < 1024; ++data_rank) {
      const auto boxes = layout.boxes(data_rank * 16 + tensor_rank);
      ASSERT_EQ(boxes.size(), 1u);
      ASSERT_EQ(boxes[0].offsets[0], next);
      next += boxes[0].sizes[0];
    }
  }
  EXPECT_EQ(next, 1 << 20);
}

TEST(Layout, LongestExtentsDoNotOverflow) {
  constexpr std::int64_t most = 0x7fffffffffffffff;
  const auto layout = TensorLayout::sharded({most}, 0, 3);
  EXPECT_EQ(layout.boxes(2)[0].offsets[0] + layout.boxes(2)[0].sizes[0], most);
}

TEST(Layout, WhatMakesNoSenseIsRefused) {
  const auto refused = [](auto&& make) { EXPECT_EQ(failure_of(make).kind(), ErrorKind::invalid_argument); };
  refused([] { TensorLayout::sharded({4}, 1, 2); });
  refused([] { TensorLayout::sharded({}, 0, 2); });
  refused([] { TensorLayout::sharded({-1}, 0, 2); });
  refused([] { TensorLayout::sharded({4}, 0, 0); });
  refused([] { TensorLayout::sharded({4}, 0, std::vector<std::int64_t>{1, 2}); });
  refused([] { TensorLayout::sharded({4}, 0, std::vector<std::int64_t>{5, -1}); });
  refused([] { TensorLayout::sharded({4}, 0, std::vector<std::int64_t>{3, 2}); });
  refused([] { TensorLayout::on_mesh({4}, Mesh({2, 2}), {Placement::shard(0)}); });
  refused([] { TensorLayout::on_mesh({4}, Mesh({2}), {Placement::strided_shard(0, 0)}); });
  refused([] { TensorLayout::listed({4}, {{{{2}, {3}}}}); });
  refused([] { TensorLayout::listed({4}, {{{{2, 0}, {1, 1}}}}); });
  refused([] { Mesh({2, 0}); });
  refused([] { Mesh({1 << 16, 1 << 16}); });
  refused([] { Mesh(std::vector<Mesh::Axis>{{4, 1}, {2, 3}}); });
}

}  // namespace
}  // namespace cairn
