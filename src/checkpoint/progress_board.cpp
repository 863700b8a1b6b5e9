// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/progress_board.hpp"

#include <algorithm>

namespace cairn {
namespace {

constexpr int kReportTag = 0;

}  // namespace

ProgressBoard::ProgressBoard(Communicator& comm, bool is_chain) : comm_(comm.duplicate()) {
  const int mine = comm.rank(), size = comm.size();
  if (mine != 0) to_.push_back(0);
  if (is_chain && mine + 1 < size) to_.push_back(mine + 1);
  for (int rank = 1; mine == 0 && rank < size; ++rank) from_.push_back(rank);
  if (is_chain && mine > 0) from_.push_back(mine - 1);
  for (const int rank : from_) {
    auto& source = *sources_.emplace_back(std::make_unique<Source>());
    source.request = comm_->start_receive(source.wire, rank, kReportTag);
  }
}

void ProgressBoard::send(int to, const RankReport& report) {
  Sent& sent = sent_.emplace_back(Sent{to, report.encode(), nullptr});
  sent.request = comm_->start_send(sent.wire, to, kReportTag);
}

// From the front only: the others must not move.
void ProgressBoard::drop_sent() {
  while (!sent_.empty() && sent_.front().request->test()) sent_.pop_front();
}

void ProgressBoard::post(const RankReport& report) {
  drop_sent();
  for (const int rank : to_) {
    const auto on_its_way = std::ranges::any_of(
        sent_, [&](const Sent& sent) { return sent.to == rank && !sent.request->test(); });
    if (!on_its_way) send(rank, report);
  }
}

void ProgressBoard::collect(const Heard& heard) {
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    Source& source = *sources_[i];
    while (source.request && source.request->test()) {
      const auto report = RankReport::decode(source.wire);
      source.request = report.last ? nullptr : comm_->start_receive(source.wire, from_[i], kReportTag);
      heard(from_[i], report);
    }
  }
}

void ProgressBoard::post_last(RankReport report) {
  report.last = true;
  for (const int rank : to_) send(rank, report);
}

bool ProgressBoard::is_over() {
  drop_sent();
  return sent_.empty() && std::ranges::all_of(sources_, [](const auto& source) { return !source->request; });
}

}  // namespace cairn
