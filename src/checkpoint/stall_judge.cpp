// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/stall_judge.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace cairn {
namespace {

constexpr std::size_t kShown = 8;

std::string describe(const StallJudge::Stuck& stuck, int world_size) {
  const RankReport& report = stuck.report;
  std::string text;
  if (world_size > 1) {
    const auto host = report.host.empty() ? "" : fmt::format(" ({})", escape_name(report.host));
    text = fmt::format("rank {} of {}{} has {} for {:.0f} s ", stuck.rank, world_size, host,
                       stuck.is_silent ? "not answered" : "made no progress", stuck.seconds);
  } else {
    text = fmt::format("no progress for {:.0f} s ", stuck.seconds);
  }
  text += fmt::format("while {}", to_string(report.phase));
  if (report.phase == RunPhase::copying && report.total_bytes > 0) {
    text += fmt::format(", after {} of {}", human_bytes(report.done_bytes), human_bytes(report.total_bytes));
  }
  return report.doing.empty() ? text : text + ", " + escape_name(report.doing);
}

}  // namespace

void StallJudge::heard(int rank, const RankReport& report, double now) {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) return;
  if (report.last) {
    ranks_.erase(found);
    return;
  }
  Known& known = found->second;
  const bool gets_on = !report.at_work || !known.report.at_work || report.phase != known.report.phase ||
                       report.steps > known.report.steps;
  known = {report, now, gets_on ? now : known.got_on};
}

std::vector<StallJudge::Stuck> StallJudge::stuck(double now) const {
  std::vector<Stuck> stuck, silent;
  if (limit_s_ <= 0) return stuck;
  for (const auto& [rank, known] : ranks_) {
    const bool is_silent = now - known.heard > limit_s_ / 2;
    const Stuck one{rank, known.report, is_silent, now - known.got_on};
    if (is_silent) silent.push_back(one);
    if (one.seconds >= limit_s_) stuck.push_back(one);
  }
  return stuck.empty() || silent.empty() ? stuck : silent;
}

std::string describe(const std::vector<StallJudge::Stuck>& stuck, int world_size) {
  std::string text;
  for (std::size_t i = 0; i < std::min(stuck.size(), kShown); ++i) {
    text += (i == 0 ? "" : "; ") + describe(stuck[i], world_size);
  }
  return stuck.size() > kShown ? text + fmt::format("; and {} ranks more", stuck.size() - kShown) : text;
}

}  // namespace cairn
