// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/run_watch.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <ctime>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/fail.hpp"
#include "base/workers.hpp"
#include "parallel/polling.hpp"
#include "storage/signal_cleanup.hpp"

namespace cairn {
namespace {

constexpr double kLongestStep_s = 1;      // of the patient clock
constexpr double kComputingShare = 0.05;  // of a core: more than waiting costs
constexpr std::chrono::seconds kRemovalLimit(5);

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : std::string();
}

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Who watches rank 0 or a neighbour speaks later than rank 0, which watches all.
StallJudge judge_for(int rank, const ProgressBoard* board, double limit_s) {
  StallJudge judge(rank == 0 ? limit_s : limit_s * 1.25 + 2);
  if (rank == 0) judge.expect(0, 0);
  if (board != nullptr) {
    for (const int source : board->sources()) judge.expect(source, 0);
  }
  return judge;
}

// A file system that hangs may be why: no longer than a limit.
void remove_temporaries() {
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
  };
  const auto state = std::make_shared<State>();
  try {
    std::thread([state] {
      remove_registered_files();
      const std::lock_guard lock(state->mutex);
      state->done = true;
      state->changed.notify_one();
    }).detach();
  } catch (const std::system_error&) {
    return remove_registered_files();
  }
  std::unique_lock lock(state->mutex);
  state->changed.wait_for(lock, kRemovalLimit, [&] { return state->done; });
}

std::string_view outcome_of(RunPhase phase, bool loads) {
  if (phase == RunPhase::reading) return "tensors may hold a part of the new values";
  if (loads) return "no tensor has changed";
  if (phase == RunPhase::leaving) return "everything had been published";
  if (phase == RunPhase::publishing) return "every output is the old one or the complete new one";
  return "nothing is published";
}

}  // namespace

RunWatch::RunWatch(Communicator& comm, FileSystem& files, WatchOptions options)
    : comm_(comm), inner_files_(files), options_(std::move(options)), host_(host_name()) {
  if (is_watching()) watched_files_.emplace(files, activity_);
  const std::uint64_t wishes = (options_.progress ? 1 : 0) | (is_watching() ? 2 : 0);
  const std::uint64_t wanted = agree(comm, wishes);
  if (wanted == 0) return;
  if (comm.size() > 1) board_ = std::make_unique<ProgressBoard>(comm, (wanted & 2) != 0);
  others_.resize(static_cast<std::size_t>(comm.size()));
  if (is_watching()) {
    judge_ = judge_for(comm.rank(), board_.get(), options_.stall_timeout_s);
  }
  attended_.emplace(static_cast<Attendant&>(*this));
}

RunWatch::~RunWatch() {
  try {
    leave();
  } catch (const Error&) {  // no message can be carried any more
  }
}

void RunWatch::leave() {
  if (!board_) return;
  is_leaving_ = true;
  board_->post_last(own_report());
  Backoff backoff(for_events);
  for (;; backoff.pause()) {
    board_->collect([this](int rank, const RankReport& report) {
      if (judge_) judge_->heard(rank, report, patient_s_);
    });
    if (board_->is_over()) return;
  }
}

void RunWatch::work(const std::function<void()>& body, const std::function<void()>& meanwhile) {
  const AtWork at_work;
  if (!is_watching()) return body();
  const SignalsHeld held;  // for the thread that makes and renames files
  run_workers(
      1,
      [&](const std::atomic<bool>&) {
        held.release_here();
        body();
      },
      [&] {
        cairn::attend();
        if (meanwhile) meanwhile();
      });
}

void RunWatch::enter(RunPhase phase) {
  phase_ = phase;
  if (attended_) attend();  // at once: it may be the last that is heard of this rank
}

void RunWatch::begin_copying(std::uint64_t own_bytes, std::uint64_t all_bytes) {
  own_bytes_ = own_bytes;
  done_bytes_ = 0;
  ++round_;
  is_copied_ = false;
  all_bytes_ = all_bytes;
  phase_ = RunPhase::copying;
}

void RunWatch::moved(std::uint64_t done_bytes) {
  done_bytes_ = done_bytes;
  cairn::attend();
}

void RunWatch::end_copying() {
  done_bytes_ = own_bytes_.load();
  is_copied_ = true;
  show();
}

// --- while the thread waits -------------------------------------------------------------------------------

void RunWatch::attend() noexcept {
  try {
    const auto now = Clock::now();
    const double passed = std::chrono::duration<double>(now - attended_at_).count();
    attended_at_ = now;
    patient_s_ += std::min(passed, kLongestStep_s);
    exchange();
    show();
    if (const auto error = find_stuck()) give_up(*error);
  } catch (...) {  // what cannot be told is not told; what fails for the run fails there too
  }
}

void RunWatch::exchange() {
  const RankReport own = own_report();
  if (judge_) judge_->heard(comm_.rank(), own, patient_s_);
  if (!board_) return;
  if (!is_leaving_) board_->post(own);
  board_->collect([this](int rank, const RankReport& report) {
    others_[static_cast<std::size_t>(rank)] = report;
    if (judge_) judge_->heard(rank, report, patient_s_);
  });
}

RankReport RunWatch::own_report() {
  if (is_watching()) count_steps();
  RankReport report{phase_, is_at_work(), false, round_, steps_, done_bytes_, own_bytes_, host_, {}};
  const auto oldest = activity_.oldest();
  if (oldest) report.doing = fmt::format("{} {}", oldest->what, oldest->path);
  return report;
}

// Gets on: a file operation has ended; or the other threads of this process compute; or the kernel writes
// back while one waits for that.
void RunWatch::count_steps() {
  const auto now = Clock::now();
  const double passed = std::chrono::duration<double>(now - counted_at_).count();
  const double cpu_s = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - seconds_of(CLOCK_THREAD_CPUTIME_ID);
  const auto ended = activity_.ended();
  bool gets_on = ended != ended_operations_ || cpu_s - other_cpu_s_ > kComputingShare * passed;
  if (activity_.is_syncing()) {
    const auto written_back = pages_written_back();
    gets_on |= !written_back || *written_back != written_back_;
    written_back_ = written_back.value_or(0);
  }
  counted_at_ = now;
  other_cpu_s_ = cpu_s;
  ended_operations_ = ended;
  if (gets_on) ++steps_;
}

void RunWatch::show() const {
  const std::uint64_t all = all_bytes_;
  if (!options_.progress || comm_.rank() != 0 || all == 0) return;
  std::uint64_t done = is_copied_ ? all : done_bytes_.load();
  for (const RankReport& report : others_) {
    if (report.round == round_) done += report.done_bytes;
  }
  options_.progress({std::min(done, all), all, to_string(phase_)});
}

// --- stuck ------------------------------------------------------------------------------------------------

std::optional<Error> RunWatch::find_stuck() {
  if (!judge_) return std::nullopt;
  const auto stuck = judge_->stuck(patient_s_);
  if (stuck.empty()) return std::nullopt;
  const bool is_coordinator =
      std::ranges::any_of(stuck, [](const StallJudge::Stuck& one) { return one.rank == 0; });
  std::string hint;
  if (is_coordinator && comm_.rank() != 0) {
    hint = "rank 0 cannot remove its temporary: where '.NAME.cairn-part' is left, --overwrite discards it";
  }
  return Error(ErrorKind::io,
               fmt::format("{}: the run is aborted, {}", describe(stuck, comm_.size()),
                           outcome_of(phase_, options_.loads)),
               hint);
}

void RunWatch::give_up(const Error& error) {
  try {
    if (options_.stalled) options_.stalled(error);
  } catch (...) {  // said or not, the run ends
  }
  if (comm_.rank() == 0) remove_temporaries();
  comm_.abort(1);
}

}  // namespace cairn
