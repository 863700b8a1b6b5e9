// SPDX-License-Identifier: BSD-3-Clause
#include "engine/remote_reads.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <thread>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"
#include "engine/read_messages.hpp"
#include "parallel/attention.hpp"
#include "parallel/polling.hpp"

namespace cairn {
namespace {

constexpr int kCoordinator = 0;
constexpr std::size_t kRememberedFailures = 64;
// Bytes move only inside of polls. Who has none on their way polls seldom: it takes cores from those who
// have.
constexpr Patience kMoving{std::chrono::microseconds(100), std::chrono::microseconds(50)};
constexpr Patience kIdle{std::chrono::microseconds(20), std::chrono::microseconds(500)};

/// The pauses of a loop that polls: they grow until something has moved.
class Pauses {
 public:
  void pause(bool is_moving) {
    if (is_moving != is_moving_) end();
    is_moving_ = is_moving;
    (backoff_ ? *backoff_ : backoff_.emplace(is_moving ? kMoving : kIdle)).pause();
  }
  void end() { backoff_.reset(); }

 private:
  bool is_moving_ = true;
  std::optional<Backoff> backoff_;
};

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
  std::array<std::byte, sizeof(std::uint64_t)> state;  // bytes of the error's text; 0: none
  std::unique_ptr<Request> sent, state_received, received;
};

RemoteReads::RemoteReads(Communicator& comm, int requests)
    : comm_(comm),
      requests_(std::clamp(requests, 1, kMostRequests)),
      running_(kMostReadSlots),
      on_their_way_(static_cast<std::size_t>(comm.size())) {}

RemoteReads::~RemoteReads() = default;

void RemoteReads::run(const std::function<void()>& body) {
  const AtWork at_work;
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
  } catch (const Error& error) {
    fail_all(error);
    throw;
  }
  worker.join();
}

void RemoteReads::carry() {
  Pauses pauses;
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
  running_[slot] = std::make_unique<Running>(Running{asked, asked.message.encode(), {}, {}, {}, {}});
  Running& running = *running_[slot];
  ++on_their_way_[static_cast<std::size_t>(asked.rank)];
  running.state_received = comm_.start_receive(running.state, asked.rank, state_tag(slot));
  running.received = comm_.start_receive(asked.into, asked.rank, bytes_tag(slot));
  running.sent = comm_.start_send(running.message, asked.rank, kRequestTag);
}

bool RemoteReads::finished(Running& running) {
  if (!running.sent->test() || !running.state_received->test() || !running.received->test()) return false;
  const auto text_bytes = ByteReader(running.state, "answer").read<std::uint64_t>();
  if (text_bytes == 0) return true;
  Bytes text(text_bytes);
  comm_.start_receive(text, running.asked.rank, text_tag(running.asked.message.slot))->wait();
  running.asked.failure = decode_error(text);
  const std::lock_guard lock(mutex_);
  if (failures_.size() == kRememberedFailures) failures_.erase(failures_.begin());
  failures_.emplace_back(running.asked.rank, running.asked.failure->message());
  return true;
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

// --- the ranks that are asked ----------------------------------------------------------------------------

namespace {

struct Answer {
  Bytes bytes, text;
  std::array<std::byte, sizeof(std::uint64_t)> state;
  std::vector<std::unique_ptr<Request>> sent;

  bool is_sent() {
    if (std::ranges::all_of(sent, [](const auto& request) { return request->test(); })) sent.clear();
    return sent.empty();
  }
};

Bytes failure_text(const std::function<void()>& body) {
  try {
    body();
    return {};
  } catch (const Error& error) {
    return encode_error(error);
  } catch (const std::exception& error) {
    return encode_error(Error(ErrorKind::io, error.what()));
  }
}

}  // namespace

/// Answers ranks until they dismiss this one, a step at a time.
class ReadServer {
 public:
  ReadServer(Communicator& comm, const std::vector<int>& askers, int requests, const ReadFile& read)
      : comm_(comm), read_(read), answers_(static_cast<std::size_t>(std::clamp(requests, 1, kMostRequests))) {
    for (const int rank : askers) {
      asking_.push_back({rank, {}, nullptr});
    }
    for (Asking& asking : asking_) await(asking);
  }

  /// Whether anything moved.
  bool step() {
    bool moved = false;
    for (std::size_t i = 0; i < asking_.size(); ++i) {  // all have their turn, however few the answers are
      Asking& asking = asking_[(first_ + i) % asking_.size()];
      moved = (asking.request && asking.request->test() && take(asking)) || moved;
    }
    if (!asking_.empty()) first_ = (first_ + 1) % asking_.size();
    return moved;
  }

  bool is_moving() {
    return std::ranges::count_if(answers_, [](Answer& answer) { return !answer.is_sent(); }) > 0;
  }
  bool is_done() {
    const auto is_left = [](const Asking& asking) { return asking.request == nullptr; };
    return std::ranges::all_of(asking_, is_left) && !is_moving();
  }
  /// What a rank said of a read that failed here.
  const std::optional<Error>& told() const { return told_; }

 private:
  struct Asking {
    int rank;
    std::array<std::byte, ReadMessage::kBytes> wire;
    std::unique_ptr<Request> request;  // null: it asks no more
  };

  void await(Asking& asking) { asking.request = comm_.start_receive(asking.wire, asking.rank, kRequestTag); }

  // False: all answers are on their way, and the request waits.
  bool take(Asking& asking) {
    const auto message = ReadMessage::decode(asking.wire);
    if (message.kind == ReadMessage::Kind::dismiss) {
      asking.request.reset();
      if (message.bytes > 0) take_failure(asking.rank, message.bytes);
      return true;
    }
    const auto answer = std::ranges::find_if(answers_, &Answer::is_sent);
    if (answer == answers_.end()) return false;
    give(asking.rank, message, *answer);
    await(asking);
    return true;
  }

  void take_failure(int rank, std::uint64_t text_bytes) {
    Bytes text(text_bytes);
    comm_.start_receive(text, rank, kDismissalTag)->wait();
    if (!told_) told_ = decode_error(text);
  }

  void give(int rank, const ReadMessage& message, Answer& answer) {
    answer.bytes.resize(kMostAnswerBytes);
    const auto into = std::span(answer.bytes).first(std::min(message.bytes, kMostAnswerBytes));
    answer.text = failure_text([&] { read_(message.file, message.byte_offset, into); });
    ByteWriter state;
    state.write<std::uint64_t>(answer.text.size());
    std::ranges::copy(state.view(), answer.state.begin());
    // after a failure too: who asked waits for as many bytes as it asked for
    answer.sent.push_back(comm_.start_send(answer.state, rank, state_tag(message.slot)));
    answer.sent.push_back(comm_.start_send(into, rank, bytes_tag(message.slot)));
    if (!answer.text.empty())
      answer.sent.push_back(comm_.start_send(answer.text, rank, text_tag(message.slot)));
  }

  Communicator& comm_;
  const ReadFile& read_;
  std::vector<Asking> asking_;
  std::vector<Answer> answers_;
  std::size_t first_ = 0;
  std::optional<Error> told_;
};

void serve_reads(Communicator& comm, int requests, const ReadFile& read) {
  ReadServer server(comm, {kCoordinator}, requests, read);
  Pauses pauses;
  while (!server.is_done()) {
    if (server.step())
      pauses.end();
    else
      pauses.pause(server.is_moving());
    attend();
  }
  if (server.told()) throw Error(*server.told());
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
  Pauses pauses;
  while (at_work || !server.is_done()) {
    const bool moved = step();
    const bool is_moving = is_carrying() || server.is_moving();
    if (server.step() || moved) {
      pauses.end();
    } else if (is_moving || !at_work) {
      pauses.pause(is_moving);
    } else if (!wait_for_reads(kIdle.longest_sleep)) {
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
