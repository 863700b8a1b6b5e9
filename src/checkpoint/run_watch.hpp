// SPDX-License-Identifier: BSD-3-Clause
// Progress over all ranks, and ranks that are stuck. One for a run of a verb, on every rank.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cairn/checkpoint.hpp"
#include "checkpoint/progress_board.hpp"
#include "checkpoint/stall_judge.hpp"
#include "parallel/attention.hpp"
#include "storage/activity.hpp"

namespace cairn {

struct WatchOptions {
  std::function<void(const Progress&)> progress;  ///< called on rank 0, on the thread of the run
  double stall_timeout_s = 0;                     ///< 0: nobody is ever stuck
  std::function<void(const Error&)> stalled;      ///< called by who finds a stuck rank, before the abort
  bool loads = false;                             ///< a load: nothing is written but tensors
};

/// Attends the thread that made it. What a stuck run does: the rank that finds a stuck one says so, rank 0
/// removes the registered temporaries (storage/signal_cleanup.hpp), and the communicator is aborted with
/// status 1.
class RunWatch final : private Attendant {
 public:
  /// Collective; before anything of the run can fail. All outlive it.
  RunWatch(Communicator& comm, FileSystem& files, WatchOptions options);
  /// Collective: all ranks leave the run together, whether it has failed or not.
  ~RunWatch() override;

  /// The files as the run is to use them. Without a stall timeout they are those it was made with.
  FileSystem& files() { return watched_files_ ? *watched_files_ : inner_files_; }
  /// For operations of other kinds; null without a stall timeout.
  Activity* activity() { return is_watching() ? &activity_ : nullptr; }

  /// The run. What is no Error is not agreed on: this rank leaves alone, and waits for nobody.
  template <class Body>
  auto guarded(Body body) {
    try {
      return body();
    } catch (const Error&) {
      throw;
    } catch (...) {
      [[maybe_unused]] const auto* left_as_it_is = board_.release();  // messages on their way use its buffers
      throw;
    }
  }

  /// Work that talks to no rank. With a stall timeout it runs on another thread, so that this one answers; it
  /// calls `meanwhile` then, if there is one, now and then.
  void work(const std::function<void()>& body, const std::function<void()>& meanwhile = {});
  /// Whether work() runs it on another thread.
  bool works_apart() const { return is_watching(); }

  /// RunPhase::leaving: everything is published.
  void enter(RunPhase phase);
  /// Enters copying: so many bytes of this rank, so many of all ranks. Any thread.
  void begin_copying(std::uint64_t own_bytes, std::uint64_t all_bytes);
  /// Of this rank since begin_copying. Any thread; that of the run is attended.
  void moved(std::uint64_t done_bytes);
  /// All ranks have moved their bytes.
  void end_copying();

 private:
  using Clock = std::chrono::steady_clock;
  bool is_watching() const { return options_.stall_timeout_s > 0; }
  void attend() noexcept override;
  void exchange();
  RankReport own_report();
  void count_steps();
  void show() const;
  std::optional<Error> find_stuck();
  void give_up(const Error& error);
  void leave();

  Communicator& comm_;
  FileSystem& inner_files_;
  const WatchOptions options_;
  const std::string host_;
  Activity activity_;
  std::optional<WatchedFileSystem> watched_files_;
  std::unique_ptr<ProgressBoard> board_;
  std::vector<RankReport> others_;  // by rank; rank 0 has all
  std::optional<StallJudge> judge_;
  double patient_s_ = 0;  // the judge's clock: it stands while this process does not run
  Clock::time_point attended_at_ = Clock::now();

  bool is_leaving_ = false;
  std::atomic<bool> is_copied_{false};  // by all: what was heard of the others may be older
  std::atomic<RunPhase> phase_{RunPhase::planning};
  std::atomic<std::uint32_t> round_{0};  // of copying
  std::atomic<std::uint64_t> done_bytes_{0}, own_bytes_{0}, all_bytes_{0};

  std::uint64_t steps_ = 0, ended_operations_ = 0, written_back_ = 0;
  double other_cpu_s_ = 0;
  Clock::time_point counted_at_ = attended_at_;

  std::optional<Attended> attended_;
};

}  // namespace cairn
