// SPDX-License-Identifier: BSD-3-Clause
#include "parallel/common_end.hpp"

#include <algorithm>
#include <deque>
#include <exception>

#include "parallel/agree.hpp"
#include "parallel/polling.hpp"

namespace cairn {
namespace {

constexpr int kRoot = 0, kReportTag = 30, kVerdictTag = 31;
constexpr std::byte kFine{0}, kFailed{1};

/// A word of one byte that each rank says once, and one that all hear: kFailed as soon as somebody says it,
/// else kFine when all have.
class CommonEnd {
 public:
  explicit CommonEnd(Communicator& comm) : comm_(comm) {
    if (comm.rank() != kRoot) receive(kRoot, kVerdictTag);
    for (int rank = 1; comm.rank() == kRoot && rank < comm.size(); ++rank) receive(rank, kReportTag);
  }

  bool has_said() const { return has_said_; }
  void say(std::byte word) {
    has_said_ = true;
    if (comm_.rank() == kRoot)
      failed_ = failed_ || word == kFailed;
    else
      send(word, kRoot, kReportTag);
  }
  /// Whether the common word is there.
  bool hear() {
    if (comm_.rank() == kRoot) return decide();
    return incoming_[0].is_there();
  }
  /// Waits for what is on its way; what this rank has to say must have been said.
  void finish() {
    for (Incoming& one : incoming_) one.request->wait();
    for (const auto& request : sent_) request->wait();
  }

 private:
  struct Incoming {
    std::byte word;
    std::unique_ptr<Request> request;
    bool arrived = false;
    bool is_there() { return arrived = arrived || request->test(); }
  };

  void receive(int from, int tag) {
    Incoming& one = incoming_.emplace_back();
    one.request = comm_.start_receive(std::span(&one.word, 1), from, tag);
  }
  void send(std::byte word, int to, int tag) {
    const std::byte& kept = outgoing_.emplace_back(word);
    sent_.push_back(comm_.start_send(std::span(&kept, 1), to, tag));
  }
  bool decide() {
    if (decided_) return true;
    std::size_t arrived = 0;
    for (Incoming& one : incoming_) {
      if (!one.is_there()) continue;
      ++arrived;
      failed_ = failed_ || one.word == kFailed;
    }
    decided_ = failed_ || (has_said_ && arrived == incoming_.size());
    if (!decided_) return false;
    for (int rank = 1; rank < comm_.size(); ++rank) send(failed_ ? kFailed : kFine, rank, kVerdictTag);
    return true;
  }

  Communicator& comm_;
  std::deque<Incoming> incoming_;
  std::deque<std::byte> outgoing_;
  std::vector<std::unique_ptr<Request>> sent_;
  bool has_said_ = false, failed_ = false, decided_ = false;
};

}  // namespace

void poll_on_all_ranks(std::string_view step, Communicator& comm, const std::function<bool()>& body) {
  std::exception_ptr failure;
  CommonEnd end(comm);
  Backoff backoff(for_transfers);
  while (!end.hear()) {
    try {
      if (!end.has_said() && body()) end.say(kFine);
    } catch (...) {
      failure = std::current_exception();
      end.say(kFailed);
    }
    if (!end.hear()) backoff.pause();
  }
  if (!end.has_said()) end.say(kFine);  // some other rank has failed
  end.finish();
  on_all_ranks(step, comm, [&] {
    if (failure) std::rethrow_exception(failure);
  });
}

}  // namespace cairn
