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
  done_ = false;
  std::exception_ptr failure;
  std::jthread worker([&] {
    try {
      body();
    } catch (...) {
      failure = std::current_exception();
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
  if (failure) std::rethrow_exception(failure);
}

void RemoteReads::carry() {
  std::optional<Backoff> backoff;
  for (;;) {
    if (step())
      backoff.reset();
    else
      (backoff ? *backoff : backoff.emplace(kMoving)).pause();
    attend();
    if (std::ranges::any_of(running_, [](const auto& running) { return running != nullptr; })) continue;
    std::unique_lock lock(mutex_);  // nothing to carry: no need to poll the messages
    changed_.wait_for(lock, kAttendInterval, [this] { return done_ || !waiting_.empty(); });
    if (done_ && waiting_.empty()) return;
  }
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
  const auto told = text.empty() ? nullptr : comm_.start_send(text, rank, text_tag(0));
  sent->wait();
  if (told) told->wait();
}

// --- the ranks that are asked
// -------------------------------------------------------------------------------

namespace {

struct Answer {
  Bytes bytes, text;
  std::array<std::byte, sizeof(std::uint64_t)> state;
  std::vector<std::unique_ptr<Request>> sent;

  bool is_sent() {
    if (std::ranges::all_of(sent, [](const auto& request) { return request->test(); })) sent.clear();
    return sent.empty();
  }
  void wait() {
    for (const auto& request : sent) request->wait();
    sent.clear();
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

void give(Communicator& comm, const ReadMessage& message, Answer& answer, const ReadFile& read) {
  answer.wait();
  answer.bytes.resize(kMostAnswerBytes);
  const auto into = std::span(answer.bytes).first(std::min(message.bytes, kMostAnswerBytes));
  answer.text = failure_text([&] { read(message.file, message.byte_offset, into); });
  ByteWriter state;
  state.write<std::uint64_t>(answer.text.size());
  std::ranges::copy(state.view(), answer.state.begin());
  // after a failure too: the coordinator waits for as many bytes as it asked for
  answer.sent.push_back(comm.start_send(answer.state, kCoordinator, state_tag(message.slot)));
  answer.sent.push_back(comm.start_send(into, kCoordinator, bytes_tag(message.slot)));
  if (!answer.text.empty()) {
    answer.sent.push_back(comm.start_send(answer.text, kCoordinator, text_tag(message.slot)));
  }
}

void wait_for(Request& request, std::vector<Answer>& answers) {
  for (bool moving = true;;) {
    Backoff backoff(moving ? kMoving : kIdle);
    for (;; backoff.pause()) {
      if (request.test()) return;
      if (moving && std::ranges::all_of(answers, &Answer::is_sent)) break;
    }
    moving = false;
  }
}

[[noreturn]] void throw_told(Communicator& comm, std::uint64_t text_bytes) {
  Bytes text(text_bytes);
  comm.start_receive(text, kCoordinator, text_tag(0))->wait();
  throw decode_error(text);
}

}  // namespace

void serve_reads(Communicator& comm, int requests, const ReadFile& read) {
  std::vector<Answer> answers(static_cast<std::size_t>(std::clamp(requests, 1, kMostRequests)));
  std::array<std::byte, ReadMessage::kBytes> wire;
  for (std::size_t next = 0;; next = (next + 1) % answers.size()) {
    attend();
    wait_for(*comm.start_receive(wire, kCoordinator, kRequestTag), answers);
    const auto message = ReadMessage::decode(wire);
    if (message.kind == ReadMessage::Kind::read) {
      give(comm, message, answers[next], read);
      continue;
    }
    for (Answer& answer : answers) answer.wait();
    if (message.bytes > 0) throw_told(comm, message.bytes);
    return;
  }
}

}  // namespace cairn
