// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "cairn/error.hpp"
#include "cairn/plan.hpp"
#include "failure_of.hpp"

namespace cairn {
namespace {

const std::vector<std::string_view> kNames{"model.w",
                                           "dataloader.dp_rank_0",
                                           "dataloader.dp_rank_1",
                                           "rng.rank_0.cpu",
                                           "rng.rank_1.cpu",
                                           "lora_rank",
                                           "rank_x",
                                           "xrank_1",
                                           "a.rank_1b"};

TEST(RankEntries, AnUnchangedNumberOfRanksLoadsThemAll) {
  const auto outcome = decide_rank_entries(kNames, 2, 2);
  EXPECT_EQ(outcome.loaded, (std::vector<std::size_t>{1, 2, 3, 4}));
  EXPECT_TRUE(outcome.dropped.empty());
  EXPECT_TRUE(outcome.lacks.empty());
}

TEST(RankEntries, AChangedNumberIsRefusedByDefault) {
  const Error error = failure_of([] { decide_rank_entries(kNames, 2, 4); });
  EXPECT_EQ(error.kind(), ErrorKind::mismatch);
  EXPECT_TRUE(contains(error, "saved by 2 ranks, loaded by 4"));
  EXPECT_TRUE(contains(error, "'dataloader.dp_rank_1'"));
  EXPECT_FALSE(contains(error, "lora_rank"));
  const std::vector<std::string_view> others{"model.w", "step"};
  EXPECT_TRUE(decide_rank_entries(others, 2, 4).loaded.empty());
}

TEST(RankEntries, KeepLoadsThoseOfRanksThatThereAre) {
  const auto fewer = decide_rank_entries(kNames, 2, 1, RankEntryPolicy::keep);
  EXPECT_EQ(fewer.loaded, (std::vector<std::size_t>{1, 3}));
  EXPECT_EQ(fewer.dropped, (std::vector<std::size_t>{2, 4}));
  EXPECT_TRUE(fewer.lacks.empty());
  const auto more = decide_rank_entries(kNames, 2, 5, RankEntryPolicy::keep);
  EXPECT_EQ(more.loaded.size(), 4u);
  ASSERT_EQ(more.lacks.size(), 2u);
  EXPECT_EQ(more.lacks[0].pattern, "dataloader.dp_rank_*");
  EXPECT_EQ(more.lacks[1].pattern, "rng.rank_*.cpu");
  EXPECT_EQ(more.lacks[1].ranks, 3);
}

TEST(RankEntries, DropLoadsNone) {
  const auto outcome = decide_rank_entries(kNames, 2, 3, RankEntryPolicy::drop);
  EXPECT_TRUE(outcome.loaded.empty());
  EXPECT_EQ(outcome.dropped.size(), 4u);
  EXPECT_EQ(outcome.lacks[0].ranks, 3);
  EXPECT_EQ(failure_of([] { decide_rank_entries(kNames, 0, 3); }).kind(), ErrorKind::invalid_argument);
}

}  // namespace
}  // namespace cairn
