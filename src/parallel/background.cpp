// SPDX-License-Identifier: BSD-3-Clause
#include "parallel/background.hpp"

#include <algorithm>
#include <deque>
#include <new>
#include <system_error>
#include <utility>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"
#include "parallel/agree.hpp"
#include "parallel/letters.hpp"
#include "parallel/polling.hpp"

namespace cairn {

/// Letters on their way. step() and destruction after it was true call nothing of the communicator's again.
class Transfer {
 public:
  std::deque<OutgoingLetter> out;
  std::deque<IncomingLetter> in;

  bool step() {
    bool done = true;
    for (OutgoingLetter& letter : out) done = letter.step() && done;
    for (IncomingLetter& letter : in) done = letter.step() && done;
    return done;
  }
};

namespace {

constexpr int kRoot = 0;
constexpr int kTag = 991;
constexpr Patience for_background{std::chrono::microseconds(50), std::chrono::milliseconds(5)};

// What a rank tells rank 0: that it worked, and the result; or where it failed, and how.
Bytes worked(const Bytes& result) {
  ByteWriter out;
  out.counted_text({});
  out.append(result);
  return out.take();
}

Bytes failed(std::string_view step, int rank, const Error& error) {
  ByteWriter out;
  out.counted_text(step);
  out.append(encode({rank, error}));
  return out.take();
}

// What rank 0 tells all: whether the conclusion stands, failures and the step they were in, the summary.
struct Verdict {
  bool stands = false;
  std::string step;
  Bytes failures, summary;

  Bytes encode() const {
    ByteWriter out;
    out.write(std::uint8_t{stands});
    out.counted_text(step);
    out.counted_text(as_text(failures));
    out.counted_text(as_text(summary));
    return out.take();
  }
  static Verdict decode(std::span<const std::byte> bytes) {
    ByteReader in(bytes, "verdict of rank 0");
    Verdict verdict;
    verdict.stands = in.read<std::uint8_t>() != 0;
    verdict.step = in.counted_text();
    for (Bytes* part : {&verdict.failures, &verdict.summary}) {
      const auto text = as_bytes(in.counted_text());
      part->assign(text.begin(), text.end());
    }
    return verdict;
  }
};

// Takes the reports apart: the results, or failures.
Verdict read_reports(const std::vector<Bytes>& reports, std::vector<Bytes>& results) {
  Verdict verdict;
  for (const Bytes& report : reports) {
    ByteReader in(report, "report of a rank");
    const std::string_view step = in.counted_text();
    const auto rest = std::span(report).last(report.size() - sizeof(std::uint64_t) - step.size());
    if (step.empty()) {
      results.emplace_back(rest.begin(), rest.end());
      continue;
    }
    if (verdict.step.empty()) verdict.step = step;
    verdict.failures.insert(verdict.failures.end(), rest.begin(), rest.end());
  }
  return verdict;
}

}  // namespace

BackgroundRun::BackgroundRun(Communicator& comm, std::unique_ptr<BackgroundWork> work)
    : comm_(comm), work_(std::move(work)) {}

bool BackgroundRun::poll() {
  const std::lock_guard lock(mutex_);
  if (transfer_ == nullptr) return has_ended_;
  try {
    if (!transfer_->step()) return false;
  } catch (...) {
    broken_ = current_error();
  }
  transfer_ = nullptr;
  carried_.notify_one();
  return false;
}

void BackgroundRun::wait() {
  Backoff backoff(for_events);
  while (!poll()) backoff.pause();
}

void BackgroundRun::run() noexcept {
  Bytes report;
  try {
    report = worked(work_->work());
  } catch (...) {
    report = failed(work_->step(), comm_.rank(), current_error());
  }
  try {
    finish(report);
  } catch (...) {  // messages don't arrive, or there is no memory for them
    error_ = current_error();
    may_stand_ ? work_->leave() : work_->undo();
  }
  work_.reset();
  const std::lock_guard lock(mutex_);
  has_ended_ = true;
}

void BackgroundRun::finish(const Bytes& report) {
  may_stand_ = comm_.rank() != kRoot;
  const auto reports = gather(report);
  const Verdict verdict = Verdict::decode(spread(comm_.rank() == kRoot ? judge(reports) : Bytes{}));
  may_stand_ = verdict.stands;
  if (verdict.stands) {
    work_->keep(verdict.summary);
  } else {
    work_->undo();
    gather({});  // what rank 0 holds protects what the others remove
  }
  const auto failures = decode_failures(verdict.failures);
  if (!failures.empty()) error_ = merged(verdict.step, comm_.size(), failures);
}

Bytes BackgroundRun::judge(const std::vector<Bytes>& reports) {
  std::vector<Bytes> results;
  Verdict verdict = read_reports(reports, results);
  if (!verdict.failures.empty()) return verdict.encode();
  // what rank 0 says when there is no memory to say more
  const Error lacking(ErrorKind::io, "out of memory");
  Bytes at_least = standing(lacking, {});
  std::optional<Error> after;
  try {
    after = work_->conclude(results);
    may_stand_ = true;
  } catch (...) {
    verdict.step = work_->concluding();
    verdict.failures = encode({kRoot, current_error()});
    return verdict.encode();
  }
  try {
    Bytes summary;
    try {
      summary = work_->summary();
    } catch (...) {
      if (!after) after = current_error();
    }
    return standing(after, std::move(summary));
  } catch (const std::bad_alloc&) {
    return at_least;
  }
}

Bytes BackgroundRun::standing(const std::optional<Error>& after, Bytes summary) const {
  Verdict verdict;
  verdict.stands = true;
  verdict.summary = std::move(summary);
  if (after) {
    verdict.step = work_->concluding();
    verdict.failures = encode({kRoot, *after});
  }
  return verdict.encode();
}

std::vector<Bytes> BackgroundRun::gather(const Bytes& mine) {
  Transfer transfer;
  if (comm_.rank() != kRoot) {
    transfer.out.emplace_back(comm_, mine, kRoot, kTag);
    carry(transfer);
    return {};
  }
  for (int rank = 1; rank < comm_.size(); ++rank) transfer.in.emplace_back(comm_, rank, kTag);
  carry(transfer);
  std::vector<Bytes> all{mine};
  for (IncomingLetter& letter : transfer.in) all.push_back(letter.take());
  return all;
}

Bytes BackgroundRun::spread(Bytes verdict) {
  Transfer transfer;
  if (comm_.rank() != kRoot) {
    transfer.in.emplace_back(comm_, kRoot, kTag);
    carry(transfer);
    return transfer.in.front().take();
  }
  for (int rank = 1; rank < comm_.size(); ++rank) transfer.out.emplace_back(comm_, verdict, rank, kTag);
  carry(transfer);
  return verdict;
}

void BackgroundRun::carry(Transfer& transfer) {
  if (comm_.any_thread()) {
    Backoff backoff(for_background);
    while (!transfer.step()) backoff.pause();
    return;
  }
  std::unique_lock lock(mutex_);
  transfer_ = &transfer;
  carried_.wait(lock, [&] { return transfer_ == nullptr; });
  if (broken_) throw *broken_;
}

Background::Background(Communicator& comm) : comm_(comm.duplicate()) {
  on_all_ranks("starting a thread", *comm_,
               [&] { thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); }); });
}

Background::~Background() { finish(); }

std::shared_ptr<BackgroundRun> Background::start(std::unique_ptr<BackgroundWork> work) {
  run_ = std::make_shared<BackgroundRun>(*comm_, std::move(work));
  {
    const std::lock_guard lock(mutex_);
    next_ = run_;
  }
  started_.notify_one();
  return run_;
}

void Background::serve(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (started_.wait(lock, stop, [&] { return next_ != nullptr; })) {
    const auto run = std::exchange(next_, nullptr);
    lock.unlock();
    run->run();
    lock.lock();
  }
}

}  // namespace cairn
