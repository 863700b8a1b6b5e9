// SPDX-License-Identifier: BSD-3-Clause
// Which ranks are stuck, by what is heard of them. Pure: time is an argument, in seconds.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/rank_report.hpp"

namespace cairn {

/// A rank at work gets on when its report shows it: another phase, more steps. One that waits for others
/// gets on by answering. A rank that does neither for the limit is stuck.
class StallJudge {
 public:
  struct Stuck {
    int rank;
    RankReport report;  ///< the latest
    bool is_silent;     ///< it does not even answer
    double seconds;     ///< since it last got on
  };

  /// Nobody is stuck with a limit of 0.
  explicit StallJudge(double limit_s) : limit_s_(limit_s) {}

  /// From `now` on the rank is expected to get on.
  void expect(int rank, double now) { ranks_[rank] = {{}, now, now}; }
  void heard(int rank, const RankReport& report, double now);

  /// The ranks that are stuck at `now`, ascending. Ranks that have been silent for half the limit may be why
  /// others do not get on: where there are such, they are named alone.
  std::vector<Stuck> stuck(double now) const;

 private:
  struct Known {
    RankReport report;
    double heard, got_on;  // times
  };
  double limit_s_;
  std::map<int, Known> ranks_;
};

/// "rank 2 (node7) has made no progress for 30 s while copying, after 12 MB of 800 MB, reading /a/b"; of
/// several ranks with "; " between them. Without ranks in a world of one.
std::string describe(const std::vector<StallJudge::Stuck>& stuck, int world_size);

}  // namespace cairn
