// SPDX-License-Identifier: BSD-3-Clause
#include "plan/merged_read.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace cairn {
namespace {

constexpr MergeLimits kLimits{.gap_bytes = 10, .read_bytes = 100};

MergedRead first(const std::vector<FileRange>& sorted) { return first_merged_read(sorted, kLimits); }

void expect_read(const MergedRead& read, std::size_t count, FileRange span) {
  EXPECT_EQ(read.count, count);
  EXPECT_EQ(read.span, span);
}

TEST(MergedRead, AGapIsReadUpToItsLimit) {
  expect_read(first({{0, 5, 20}, {0, 34, 7}}), 2, {0, 5, 36});
  expect_read(first({{0, 5, 20}, {0, 35, 7}}), 2, {0, 5, 37});
  expect_read(first({{0, 5, 20}, {0, 36, 7}}), 1, {0, 5, 20});
}

TEST(MergedRead, AReadIsAsLongAsItsLimit) {
  expect_read(first({{0, 7, 50}, {0, 57, 49}}), 2, {0, 7, 99});
  expect_read(first({{0, 7, 50}, {0, 57, 50}}), 2, {0, 7, 100});
  expect_read(first({{0, 7, 50}, {0, 57, 51}}), 1, {0, 7, 50});
}

TEST(MergedRead, ALongerRangeIsReadAlone) {
  expect_read(first({{0, 7, 101}, {0, 108, 1}}), 1, {0, 7, 101});
  expect_read(first({{0, 0, 7}, {0, 7, 101}}), 1, {0, 0, 7});
}

TEST(MergedRead, FilesAreNotMixed) { expect_read(first({{0, 7, 10}, {1, 17, 10}}), 1, {0, 7, 10}); }

TEST(MergedRead, RangesMayOverlapAndHoldEachOther) {
  expect_read(first({{0, 0, 40}, {0, 0, 50}, {0, 10, 10}, {0, 30, 30}, {0, 60, 5}}), 5, {0, 0, 65});
}

TEST(MergedRead, EmptyRangesCostNothing) {
  expect_read(first({{0, 5, 0}, {0, 5, 0}, {0, 5, 10}}), 3, {0, 5, 10});
}

}  // namespace
}  // namespace cairn
