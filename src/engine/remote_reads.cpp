// SPDX-License-Identifier: BSD-3-Clause
#include "engine/remote_reads.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <thread>

#include "base/byte_reader.hpp"
#include "engine/read_messages.hpp"
#include "engine/read_pauses.hpp"
#include "parallel/agree.hpp"
#include "parallel/attention.hpp"

namespace cairn {
namespace {

constexpr std::size_t kRememberedFailures = 64;

}  // namespace

struct RemoteReads::Asked {
  int rank;
  ReadMessage message;
  std::span<std::byte> into;
  std::optional<Error> failure{};
  bool done = false;                   // guarded
  std::condition_variable finished{};  // notified under the lock: it goes with the read
};

struct RemoteReads::Running {
  Asked& asked;
  std::array<std::byte, ReadMessage::kBytes> message;
  std::array<std::byte, sizeof(std::uint64_t)> state;             // bytes of the error's text; 0: none
  std::unique_ptr<Request> sent{}, state_received{}, received{};  // the last one: of the bytes, or the end
  std::unique_ptr<DeviceLink::Transfer> transfer{};
  std::array<std::byte, sizeof(std::uint64_t)> end{};  // of the sending by a device: as `state`
  bool has_arrived = false;
};

struct RemoteReads::GivenUp {
  int rank;
  std::array<std::byte, ReadMessage::kBytes> message;
  std::unique_ptr<Request> sent{};
};

RemoteReads::RemoteReads(Communicator& comm, int requests, DeviceLink* link)
    : comm_(comm),
      requests_(std::clamp(requests, 1, kMostRequests)),
      link_(link),
      by_device_(static_cast<std::size_t>(comm.size())),
      running_(kMostReadSlots),
      on_their_way_(static_cast<std::size_t>(comm.size())) {}

RemoteReads::~RemoteReads() = default;

void RemoteReads::run(const std::function<void()>& body) {
  const AtWork at_work;
  std::ranges::fill(by_device_, 0);
  run_beside(body, [this] { carry(); });
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void RemoteReads::run_beside(const std::function<void()>& body, const std::function<void()>& carry) {
  done_ = false;
  thrown_ = nullptr;
  std::jthread worker([&] {
    try {
      body();
    } catch (...) {
      thrown_ = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    done_ = true;
    changed_.notify_one();
  });
  try {
    carry();
  } catch (...) {  // the body must not wait for what nobody carries
    const Error error = current_error();
    fail_all(error);
    throw error;
  }
  worker.join();
}

void RemoteReads::carry() {
  ReadPauses pauses;
  do {
    if (step())
      pauses.end();
    else
      pauses.pause(true);
    attend();
  } while (is_carrying() || wait_for_reads(kAttendInterval));
}

bool RemoteReads::is_carrying() const {
  return std::ranges::any_of(running_, [](const auto& running) { return running != nullptr; });
}

// Nothing to carry: no need to poll the messages. False: there will be no more reads.
bool RemoteReads::wait_for_reads(std::chrono::microseconds at_most) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, at_most, [this] { return done_ || !waiting_.empty(); });
  return !done_ || !waiting_.empty();
}

// Whether anything moved.
bool RemoteReads::step() {
  bool moved = false;
  for (auto& running : running_) {
    if (!running || !finished(*running)) continue;
    --on_their_way_[static_cast<std::size_t>(running->asked.rank)];
    Asked& asked = running->asked;
    running.reset();
    finish(asked);
    moved = true;
  }
  for (std::uint32_t slot = 0; slot < running_.size(); ++slot) {
    if (running_[slot]) continue;
    Asked* next = nullptr;
    {
      const std::lock_guard lock(mutex_);
      const auto found = std::ranges::find_if(waiting_, [this](const Asked* asked) {
        return on_their_way_[static_cast<std::size_t>(asked->rank)] < requests_;
      });
      if (found == waiting_.end()) break;
      next = *found;
      waiting_.erase(found);
    }
    start(*next, slot);
    moved = true;
  }
  return moved;
}

void RemoteReads::start(Asked& asked, std::uint32_t slot) {
  asked.message.slot = slot;
  running_[slot] = std::make_unique<Running>(Running{asked, asked.message.encode(), {}});
  Running& running = *running_[slot];
  ++on_their_way_[static_cast<std::size_t>(asked.rank)];
  running.state_received = comm_.start_receive(running.state, asked.rank, state_tag(slot));
  if (link_ == nullptr)  // else the state says how they come
    running.received = comm_.start_receive(asked.into, asked.rank, bytes_tag(slot));
  if (link_error_) tell_given_up(asked.rank);
  running.sent = comm_.start_send(running.message, asked.rank, kRequestTag);
}

bool RemoteReads::finished(Running& running) {
  if (!running.sent->test() || !running.state_received->test()) return false;
  const auto state = ByteReader(running.state, "answer").read<std::uint64_t>();
  if ((state & kByDevice) != 0) return arrived_by_device(running, state & ~kByDevice);
  Asked& asked = running.asked;
  if (!running.received)
    running.received = comm_.start_receive(asked.into, asked.rank, bytes_tag(asked.message.slot));
  if (!running.received->test()) return false;
  if (state != 0) asked.failure = receive_error(running, state);
  return true;
}

// What failed on the rank that was asked.
Error RemoteReads::receive_error(const Running& running, std::uint64_t text_bytes) {
  Bytes text(text_bytes);
  comm_.start_receive(text, running.asked.rank, text_tag(running.asked.message.slot))->wait();
  Error error = decode_error(text);
  const std::lock_guard lock(mutex_);
  if (failures_.size() == kRememberedFailures) failures_.erase(failures_.begin());
  failures_.emplace_back(running.asked.rank, error.message());
  return error;
}

// The other rank says in any case that its sending has ended: also when it failed, or was given up here.
bool RemoteReads::arrived_by_device(Running& running, std::uint64_t number) {
  Asked& asked = running.asked;
  if (!running.received)
    running.received = comm_.start_receive(running.end, asked.rank, text_tag(asked.message.slot));
  receive_by_device(running, number);
  if (!running.received->test()) return false;
  const auto text_bytes = ByteReader(running.end, "end of an answer").read<std::uint64_t>();
  if (text_bytes > 0) {
    const Error error = receive_error(running, text_bytes);
    if (!link_error_) break_link(error);
  }
  asked.failure = link_error_;
  return running.has_arrived || link_error_.has_value();
}

// In the order in which the other rank sends.
void RemoteReads::receive_by_device(Running& running, std::uint64_t number) {
  const Asked& asked = running.asked;
  std::uint64_t& begun = by_device_[static_cast<std::size_t>(asked.rank)];
  if (link_error_ || running.has_arrived || (!running.transfer && number != begun)) return;
  try {
    if (!running.transfer) {
      running.transfer = link_->start_receive(asked.into, asked.rank);
      ++begun;
    }
    running.has_arrived = running.transfer->is_done();
  } catch (const Error& error) {
    break_link(error);
  }
}

void RemoteReads::break_link(const Error& error) {
  link_error_ = error;
  for (auto& running : running_) {
    if (!running) continue;
    running->transfer.reset();
    tell_given_up(running->asked.rank);
  }
}

void RemoteReads::tell_given_up(int rank) {
  if (std::ranges::find(given_up_, rank, &GivenUp::rank) != given_up_.end()) return;
  GivenUp& told =
      given_up_.emplace_back(GivenUp{rank, ReadMessage{ReadMessage::Kind::give_up, 0, 0, 0, 0}.encode()});
  told.sent = comm_.start_send(told.message, rank, kRequestTag);
}

void RemoteReads::fail_all(const Error& error) {
  std::vector<Asked*> left;
  {
    const std::lock_guard lock(mutex_);
    broken_ = error;
    left.assign(waiting_.begin(), waiting_.end());
    waiting_.clear();
  }
  for (auto& running : running_) {
    if (running) left.push_back(&running->asked);
    running.reset();
  }
  for (Asked* asked : left) {
    asked->failure = error;
    finish(*asked);
  }
}

void RemoteReads::finish(Asked& asked) {
  const std::lock_guard lock(mutex_);
  asked.done = true;
  asked.finished.notify_one();
}

void RemoteReads::read(int rank, std::uint32_t file, std::uint64_t byte_offset, std::span<std::byte> into) {
  while (!into.empty()) {
    const auto piece = into.first(std::min<std::uint64_t>(into.size(), kMostAnswerBytes));
    Asked asked{rank, {ReadMessage::Kind::read, 0, file, byte_offset, piece.size()}, piece};
    {
      std::unique_lock lock(mutex_);
      if (broken_) throw Error(*broken_);
      waiting_.push_back(&asked);
      changed_.notify_one();
      asked.finished.wait(lock, [&asked] { return asked.done; });
    }
    if (asked.failure) throw Error(*asked.failure);
    into = into.subspan(piece.size());
    byte_offset += piece.size();
  }
}

std::optional<int> RemoteReads::origin(const Error& error) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [rank, message] : failures_) {
    if (error.message().ends_with(message)) return rank;
  }
  return std::nullopt;
}

void RemoteReads::dismiss(int rank, const Error* failure) {
  const Bytes text = failure != nullptr ? encode_error(*failure) : Bytes();
  const auto message = ReadMessage{ReadMessage::Kind::dismiss, 0, 0, 0, text.size()}.encode();
  const auto sent = comm_.start_send(message, rank, kRequestTag);
  const auto told = text.empty() ? nullptr : comm_.start_send(text, rank, kDismissalTag);
  sent->wait();
  if (told) told->wait();
}

// --- all ranks -------------------------------------------------------------------------------------------

void RemoteReads::run_on_all(const std::function<void()>& body, const ReadFile& read) {
  std::vector<int> others;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    if (rank != comm_.rank()) others.push_back(rank);
  }
  ReadServer server(comm_, others, requests_, read);
  run_beside(body, [&] { carry_and_serve(server); });
  if (server.told()) throw Error(*server.told());
  const auto error = thrown_error();
  if (thrown_ && !(error && origin(*error))) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void RemoteReads::carry_and_serve(ReadServer& server) {
  std::optional<AtWork> at_work(std::in_place);  // while the body is
  ReadPauses pauses;
  while (at_work || !server.is_done()) {
    const bool moved = step();
    const bool is_moving = is_carrying() || server.is_moving();
    if (server.step() || moved) {
      pauses.end();
    } else if (is_moving || !at_work) {
      pauses.pause(is_moving);
    } else if (!wait_for_reads(kIdlePatience.longest_sleep)) {
      leave();
      at_work.reset();
    }
    attend();
  }
}

// The others need not wait for requests of this rank. The one where a read failed learns what came of it.
void RemoteReads::leave() {
  const auto error = thrown_error();
  const auto failed = error ? origin(*error) : std::nullopt;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    if (rank != comm_.rank()) dismiss(rank, failed == rank ? &*error : nullptr);
  }
}

std::optional<Error> RemoteReads::thrown_error() const {
  try {
    if (thrown_) std::rethrow_exception(thrown_);
  } catch (const Error& error) {
    return error;
  } catch (...) {  // nothing that came from another rank
  }
  return std::nullopt;
}

}  // namespace cairn
