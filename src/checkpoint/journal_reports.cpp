// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/journal_reports.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <exception>

#include "engine/transfer.hpp"
#include "parallel/polling.hpp"

namespace cairn {
namespace {

constexpr int kCoordinator = 0, kLengthTag = 0, kReportTag = 1;
constexpr std::uint64_t kMostBytes = 1 << 30;  // of windows between two reports

}  // namespace

// A report is its length, then its bytes; a length of 0 says that no more will come.
struct JournalReports::Peer {
  int rank;
  std::array<std::byte, sizeof(std::uint64_t)> length{};
  Bytes bytes{};
  std::unique_ptr<Request> length_moved{}, bytes_moved{};

  bool is_idle() { return (!length_moved || length_moved->test()) && (!bytes_moved || bytes_moved->test()); }
  void send(Communicator& comm, Bytes report) {
    bytes = std::move(report);
    length = std::bit_cast<decltype(length)>(std::uint64_t{bytes.size()});
    length_moved = comm.start_send(length, rank, kLengthTag);
    if (!bytes.empty()) bytes_moved = comm.start_send(bytes, rank, kReportTag);
  }
  void wait() const {
    for (const auto* request : {&length_moved, &bytes_moved})
      if (*request) wait_by_polling(**request, for_events);
  }
};

JournalReports::JournalReports(Parts parts) : parts_(std::move(parts)) {}
JournalReports::~JournalReports() = default;

void JournalReports::run(const std::function<void()>& body) {
  if (parts_.comm != nullptr) {
    const bool is_coordinator = parts_.file != nullptr;
    for (int rank = is_coordinator ? 1 : 0; rank < (is_coordinator ? parts_.comm->size() : 1); ++rank)
      peers_.push_back(std::make_unique<Peer>(Peer{rank}));
  }
  std::exception_ptr thrown;
  try {
    body();
  } catch (...) {
    thrown = std::current_exception();
  }
  attempt([&] { report(); });
  finish();
  if (thrown || failure_) std::rethrow_exception(thrown ? thrown : failure_);
}

// The others wait for this rank's last word: a failure is kept until all is said.
void JournalReports::attempt(const std::function<void()>& step) {
  if (failure_) return;
  try {
    step();
  } catch (...) {
    failure_ = std::current_exception();
  }
}

void JournalReports::poll() {
  if (parts_.file != nullptr) receive();
  if (is_due()) attempt([&] { report(); });
}

bool JournalReports::is_due() const {
  const bool sending = parts_.file == nullptr && !peers_.empty() && !peers_.front()->is_idle();
  if (sending || log_.count() == 0) return false;
  return log_.count() >= kMostBytes / kWindowBytes ||
         std::chrono::steady_clock::now() - reported_ >= parts_.interval;
}

void JournalReports::report() {
  FinishedWindows finished = log_.take();
  if (finished.windows.empty()) return;
  if (parts_.sync) parts_.sync();
  Bytes windows = encode_windows(std::move(finished));
  if (parts_.file != nullptr) {
    parts_.file->add_windows(windows);
  } else {
    peers_.front()->wait();
    peers_.front()->send(*parts_.comm, std::move(windows));
  }
  reported_ = std::chrono::steady_clock::now();
}

// One step with each of the others; those that are done are forgotten.
void JournalReports::receive() {
  for (auto& peer : peers_) {
    Communicator& comm = *parts_.comm;
    if (!peer->length_moved) peer->length_moved = comm.start_receive(peer->length, peer->rank, kLengthTag);
    if (!peer->length_moved->test()) continue;
    if (!peer->bytes_moved) {
      const auto length = std::bit_cast<std::uint64_t>(peer->length);
      if (length == 0) {
        peer.reset();
        continue;
      }
      peer->bytes.resize(length);
      peer->bytes_moved = comm.start_receive(peer->bytes, peer->rank, kReportTag);
    }
    if (!peer->bytes_moved->test()) continue;
    attempt([&] { parts_.file->add_windows(peer->bytes); });
    peer->bytes_moved.reset();
    peer->length_moved.reset();
  }
  std::erase(peers_, nullptr);
}

void JournalReports::finish() {
  if (parts_.file == nullptr) {
    Peer& coordinator = *peers_.front();
    coordinator.wait();
    coordinator.send(*parts_.comm, {});
    return coordinator.wait();
  }
  for (Backoff backoff(for_events); !peers_.empty(); backoff.pause()) receive();
}

}  // namespace cairn
