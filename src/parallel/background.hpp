// SPDX-License-Identifier: BSD-3-Clause
// on_all_ranks() behind the back of the callers' threads: work of all ranks, a conclusion of rank 0's, and
// what becomes of it on all. No rank waits in it for one that is busy with something else.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "cairn/communicator.hpp"
#include "cairn/error.hpp"

namespace cairn {

/// All of it, destruction too, is called on the background thread, one after the other.
class BackgroundWork {
 public:
  virtual ~BackgroundWork() = default;
  /// On every rank. The result goes to rank 0. May throw.
  virtual Bytes work() = 0;
  /// What work() was at, for messages.
  virtual std::string_view step() const = 0;
  /// On rank 0, when all ranks have worked: their results. What it throws undoes everything; what it returns
  /// failed although the conclusion stands.
  virtual std::optional<Error> conclude(const std::vector<Bytes>& results) = 0;
  /// On rank 0, after that. What it throws is a failure, and undoes nothing.
  virtual Bytes summary() = 0;
  virtual std::string_view concluding() const = 0;  ///< its name, for messages
  /// On every rank: it stands, and this is its summary; empty where there is none.
  virtual void keep(std::span<const std::byte> summary) = 0;
  /// On every rank: some rank has failed. Rank 0's is destroyed when this has returned on all.
  virtual void undo() noexcept = 0;
  /// Messages do not arrive, and rank 0 may have concluded: what it may rely on stays.
  virtual void leave() noexcept = 0;
};

class Transfer;

/// One work under way. The messages are carried by the background thread where any thread may use
/// communicators, else by poll().
class BackgroundRun {
 public:
  BackgroundRun(Communicator& comm, std::unique_ptr<BackgroundWork> work);
  BackgroundRun(const BackgroundRun&) = delete;

  /// Local; of the communicator's thread. Whether it has ended. Never blocks.
  bool poll();
  /// Polls until it has. Ends on all ranks when all poll or wait, or any thread may use communicators.
  void wait();
  /// Once it has ended: the same Error on all ranks, or none.
  const std::optional<Error>& error() const { return error_; }

  /// The background thread's.
  void run() noexcept;

 private:
  void finish(const Bytes& report);
  Bytes judge(const std::vector<Bytes>& reports);
  Bytes standing(const std::optional<Error>& after, Bytes summary) const;
  std::vector<Bytes> gather(const Bytes& mine);
  Bytes spread(Bytes verdict);
  void carry(Transfer& transfer);

  Communicator& comm_;
  std::unique_ptr<BackgroundWork> work_;
  std::optional<Error> error_;
  bool may_stand_ = false;  // as far as this rank knows
  std::mutex mutex_;
  std::condition_variable carried_;
  Transfer* transfer_ = nullptr;  // what poll() is to carry
  std::optional<Error> broken_;   // what poll() met
  bool has_ended_ = false;
};

/// A thread for one work after the other, with a communicator of its own.
class Background {
 public:
  /// Collective.
  explicit Background(Communicator& comm);
  /// Collective. Finishes what is under way.
  ~Background();
  Background(const Background&) = delete;

  /// Local: all ranks start the same works in one order. What was started before has ended.
  std::shared_ptr<BackgroundRun> start(std::unique_ptr<BackgroundWork> work);
  /// Local. Whether something is under way.
  bool is_busy() { return run_ && !run_->poll(); }
  /// Collective. Waits for it.
  void finish() {
    if (run_) run_->wait();
  }

 private:
  void serve(const std::stop_token& stop);

  std::unique_ptr<Communicator> comm_;
  std::shared_ptr<BackgroundRun> run_;
  std::mutex mutex_;
  std::condition_variable_any started_;
  std::shared_ptr<BackgroundRun> next_;
  std::jthread thread_;  // goes first
};

}  // namespace cairn
