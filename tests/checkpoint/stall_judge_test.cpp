// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/stall_judge.hpp"

#include <gtest/gtest.h>

namespace cairn {
namespace {

RankReport at_work(std::uint64_t steps, RunPhase phase = RunPhase::copying) {
  RankReport report;
  report.at_work = true;
  report.steps = steps;
  report.phase = phase;
  return report;
}

std::vector<int> ranks_of(const std::vector<StallJudge::Stuck>& stuck) {
  std::vector<int> ranks;
  for (const auto& one : stuck) ranks.push_back(one.rank);
  return ranks;
}

TEST(StallJudge, WhoWorksMustGetOn) {
  StallJudge judge(10);
  judge.expect(1, 0);
  for (double now = 0; now <= 9; ++now) judge.heard(1, at_work(7), now);
  EXPECT_TRUE(judge.stuck(9).empty());
  judge.heard(1, at_work(7), 10);
  const auto stuck = judge.stuck(10);
  EXPECT_EQ(ranks_of(stuck), std::vector{1});
  EXPECT_FALSE(stuck.at(0).is_silent);
  judge.heard(1, at_work(8), 11);
  EXPECT_TRUE(judge.stuck(11).empty());
  judge.heard(1, at_work(8, RunPhase::syncing), 20);
  EXPECT_TRUE(judge.stuck(21).empty()) << "another phase is a step too";
}

TEST(StallJudge, WhoWaitsMustAnswer) {
  StallJudge judge(10);
  judge.expect(2, 0);
  for (double now = 0; now <= 100; ++now) judge.heard(2, {}, now);
  EXPECT_TRUE(judge.stuck(100).empty());
  const auto stuck = judge.stuck(110);
  EXPECT_EQ(ranks_of(stuck), std::vector{2});
  EXPECT_TRUE(stuck.at(0).is_silent);
}

TEST(StallJudge, SilentRanksAreNamedAloneForOthersMayWaitForThem) {
  StallJudge judge(10);
  judge.expect(0, 0);
  judge.expect(1, 0);
  judge.heard(1, {}, 0.5);
  for (double now = 0; now <= 10; ++now) judge.heard(0, at_work(3), now);
  EXPECT_EQ(ranks_of(judge.stuck(10)), std::vector{1});
}

TEST(StallJudge, WhoHasLeftIsNotExpected) {
  StallJudge judge(10);
  judge.expect(1, 0);
  RankReport report;
  report.last = true;
  judge.heard(1, report, 1);
  EXPECT_TRUE(judge.stuck(1000).empty());
}

TEST(StallJudge, WithoutALimitNobodyIsStuck) {
  StallJudge judge(0);
  judge.expect(1, 0);
  EXPECT_TRUE(judge.stuck(1e9).empty());
}

TEST(StallJudge, TheSentenceHasRankHostPhaseBytesAndFile) {
  RankReport report = at_work(1);
  report.host = "node7";
  report.done_bytes = 1'500'000;
  report.total_bytes = 3'000'000;
  report.doing = "reading /a/b";
  const std::vector<StallJudge::Stuck> stuck{{2, report, false, 30}, {3, {}, true, 31}};
  EXPECT_EQ(
      describe(stuck, 4),
      "rank 2 of 4 (node7) has made no progress for 30 s while copying, after 1.50 MB of 3.00 MB, reading "
      "/a/b; rank 3 of 4 has not answered for 31 s while planning");
  EXPECT_EQ(describe({stuck[0]}, 1),
            "no progress for 30 s while copying, after 1.50 MB of 3.00 MB, reading /a/b");
}

TEST(RankReport, LongTextsAreCutAtTheirBeginning) {
  RankReport report = at_work(5, RunPhase::publishing);
  report.doing = "reading " + std::string(1000, 'x') + "/the-end";
  report.host = std::string(200, 'h');
  const auto back = RankReport::decode(report.encode());
  EXPECT_EQ(back.phase, RunPhase::publishing);
  EXPECT_EQ(back.steps, 5u);
  EXPECT_TRUE(back.at_work);
  EXPECT_TRUE(back.doing.ends_with("/the-end"));
  EXPECT_EQ(back.host.size(), 64u);
}

}  // namespace
}  // namespace cairn
