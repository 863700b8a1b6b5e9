// SPDX-License-Identifier: BSD-3-Clause
// Reports on their way between ranks: by messages that nobody waits for, so that no collective is held open
// while bytes move. Every rank reports to rank 0; in a chain also to the rank after it, so that rank 0 is
// watched too, and two stuck neighbours are.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "cairn/communicator.hpp"
#include "checkpoint/rank_report.hpp"

namespace cairn {

class ProgressBoard {
 public:
  /// Collective: works on a duplicate of `comm`.
  ProgressBoard(Communicator& comm, bool is_chain);

  /// The ranks whose reports arrive here, ascending.
  const std::vector<int>& sources() const { return from_; }
  Communicator& communicator() { return *comm_; }

  /// Local. Sends a report; to a rank that has not taken the last one yet none.
  void post(const RankReport& report);
  /// Local. Hands out what has arrived.
  using Heard = std::function<void(int rank, const RankReport& report)>;
  void collect(const Heard& heard);

  /// The end, in two parts, on every rank: the last report; then collect() until this is true. Nothing is on
  /// its way any more then.
  void post_last(RankReport report);
  bool is_over();

 private:
  struct Sent {
    int to;
    WireReport wire;
    std::unique_ptr<Request> request;
  };
  struct Source {
    WireReport wire;
    std::unique_ptr<Request> request;  // null: the last one was received
  };
  void send(int to, const RankReport& report);
  void drop_sent();

  std::unique_ptr<Communicator> comm_;
  std::vector<int> from_, to_;
  std::deque<Sent> sent_;  // addresses of elements stay
  std::vector<std::unique_ptr<Source>> sources_;
};

}  // namespace cairn
