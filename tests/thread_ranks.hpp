// SPDX-License-Identifier: BSD-3-Clause
// Ranks that are threads of one process, for what only a look at all of them at once shows: races between
// what the ranks, their background threads and their I/O threads do.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/fail.hpp"
#include "cairn/communicator.hpp"

namespace cairn {

/// What the ranks of one communicator share. Thread-safe.
class ThreadWorld {
 public:
  explicit ThreadWorld(int size) : size_(size) {}
  int size() const { return size_; }

  /// Rank-wise: adds to collective number `number` of all ranks.
  void enter(std::uint64_t number, std::uint64_t word) {
    const std::lock_guard lock(mutex_);
    Meeting& meeting = meetings_[number];
    meeting.word |= word;
    ++meeting.ranks;
    changed_.notify_all();
  }
  /// The OR of all words, when all ranks have entered. Each rank looks until it has seen it, once.
  std::optional<std::uint64_t> result(std::uint64_t number, bool waits) {
    std::unique_lock lock(mutex_);
    Meeting& meeting = meetings_[number];
    const auto is_complete = [&] { return meeting.ranks == size_; };
    if (waits) changed_.wait(lock, is_complete);
    if (!is_complete()) return std::nullopt;
    const std::uint64_t word = meeting.word;
    if (++meeting.seen == size_) meetings_.erase(number);
    return word;
  }

  using Address = std::tuple<int, int, int>;  // from, to, tag
  void post(const Address& address, Bytes message) {
    const std::lock_guard lock(mutex_);
    letters_[address].push_back(std::move(message));
    changed_.notify_all();
  }
  std::optional<Bytes> collect(const Address& address, bool waits) {
    std::unique_lock lock(mutex_);
    auto& letters = letters_[address];
    if (waits) changed_.wait(lock, [&] { return !letters.empty(); });
    if (letters.empty()) return std::nullopt;
    Bytes message = std::move(letters.front());
    letters.pop_front();
    return message;
  }

  /// What the first rank that asks makes, for all that ask with the same key.
  std::shared_ptr<void> shared(std::uint64_t number, int color,
                               const std::function<std::shared_ptr<void>()>& make) {
    const std::lock_guard lock(mutex_);
    auto& made = shared_[{number, color}];
    if (made == nullptr) made = make();
    return made;
  }

 private:
  struct Meeting {
    int ranks = 0, seen = 0;
    std::uint64_t word = 0;
  };
  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, Meeting> meetings_;
  std::map<Address, std::deque<Bytes>> letters_;
  std::map<std::pair<std::uint64_t, int>, std::shared_ptr<void>> shared_;
};

/// One rank's. Where not any thread may use it, it fails the test when another thread than the rank's does.
class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadWorld> world, int rank, bool any_thread)
      : world_(std::move(world)), rank_(rank), any_thread_(any_thread) {}

  int rank() const override { return rank_; }
  int size() const override { return world_->size(); }
  int ranks_on_node() const override { return world_->size(); }
  bool any_thread() const override { return any_thread_; }

  std::unique_ptr<Request> start_agree(std::uint64_t word, std::uint64_t& result) override {
    check_thread();
    world_->enter(++meetings_, word);
    return std::make_unique<Meeting>(*this, meetings_, &result);
  }
  std::unique_ptr<Request> start_barrier() override {
    check_thread();
    world_->enter(++meetings_, 0);
    return std::make_unique<Meeting>(*this, meetings_, nullptr);
  }

  void broadcast(Bytes& bytes, int root) override {
    check_thread();
    if (rank_ == root) {
      for (int to = 0; to < size(); ++to)
        if (to != root) world_->post({root, to, kCollective}, bytes);
    } else {
      bytes = *world_->collect({root, rank_, kCollective}, true);
    }
  }
  std::vector<Bytes> gather(std::span<const std::byte> bytes, int root) override {
    check_thread();
    Bytes mine(bytes.begin(), bytes.end());
    if (rank_ != root) {
      world_->post({rank_, root, kCollective}, std::move(mine));
      return {};
    }
    std::vector<Bytes> all;
    for (int from = 0; from < size(); ++from)
      all.push_back(from == root ? mine : *world_->collect({from, root, kCollective}, true));
    return all;
  }

  std::unique_ptr<Request> start_send(std::span<const std::byte> bytes, int to, int tag) override {
    check_thread();
    world_->post({rank_, to, tag}, Bytes(bytes.begin(), bytes.end()));
    return std::make_unique<Sent>();
  }
  std::unique_ptr<Request> start_receive(std::span<std::byte> into, int from, int tag) override {
    check_thread();
    return std::make_unique<Receive>(*this, into, ThreadWorld::Address{from, rank_, tag});
  }

  std::unique_ptr<Communicator> split(int color, int key) override {
    check_thread();
    const std::uint64_t number = ++splits_;
    std::vector<std::tuple<int, int>> members;  // key and rank
    Bytes words(2 * sizeof(int));
    const int mine[] = {color, key};
    std::memcpy(words.data(), mine, sizeof mine);
    for (int root = 0; root < size(); ++root) {
      Bytes theirs = words;
      broadcast(theirs, root);
      int read[2];
      std::memcpy(read, theirs.data(), sizeof read);
      if (read[0] == color) members.emplace_back(read[1], root);
    }
    std::ranges::sort(members);
    const auto made = world_->shared(
        number, color, [&] { return std::make_shared<ThreadWorld>(static_cast<int>(members.size())); });
    const auto place = std::ranges::find(members, std::tuple(key, rank_));
    return std::make_unique<ThreadCommunicator>(std::static_pointer_cast<ThreadWorld>(made),
                                                static_cast<int>(place - members.begin()), any_thread_);
  }
  std::unique_ptr<Communicator> duplicate() override { return split(0, rank_); }
  std::unique_ptr<Communicator> on_node() override { return split(0, rank_); }
  std::unique_ptr<SharedMemory> share_memory(std::size_t) override { return nullptr; }
  [[noreturn]] void abort(int) override { std::abort(); }

 private:
  static constexpr int kCollective = -1;  // no rank's tag

  // A rank's communicators are made by its thread.
  void check_thread() {
    if (any_thread_) return;
    EXPECT_EQ(owner_, std::this_thread::get_id()) << "a communicator of rank " << rank_;
  }

  class Sent final : public Request {
   public:
    bool test() override { return true; }
    void wait() override {}
  };

  class Meeting final : public Request {
   public:
    Meeting(ThreadCommunicator& comm, std::uint64_t number, std::uint64_t* result)
        : comm_(comm), number_(number), result_(result) {}
    ~Meeting() override { look(true); }
    bool test() override {
      comm_.check_thread();
      return look(false);
    }
    void wait() override { look(true); }

   private:
    bool look(bool waits) {
      if (done_) return true;
      const auto word = comm_.world_->result(number_, waits);
      if (word && result_ != nullptr) *result_ = *word;
      return done_ = word.has_value();
    }
    ThreadCommunicator& comm_;
    const std::uint64_t number_;
    std::uint64_t* const result_;
    bool done_ = false;
  };

  class Receive final : public Request {
   public:
    Receive(ThreadCommunicator& comm, std::span<std::byte> into, const ThreadWorld::Address& address)
        : comm_(comm), into_(into), address_(address) {}
    bool test() override {
      comm_.check_thread();
      return look(false);
    }
    void wait() override { look(true); }

   private:
    bool look(bool waits) {
      if (done_) return true;
      const auto message = comm_.world_->collect(address_, waits);
      if (!message) return false;
      done_ = true;
      if (message->size() != into_.size())
        fail(ErrorKind::io, "a message of {} bytes was expected, {} came", into_.size(), message->size());
      std::ranges::copy(*message, into_.begin());
      return true;
    }
    ThreadCommunicator& comm_;
    const std::span<std::byte> into_;
    const ThreadWorld::Address address_;
    bool done_ = false;
  };

  const std::shared_ptr<ThreadWorld> world_;
  const int rank_;
  const bool any_thread_;
  const std::thread::id owner_ = std::this_thread::get_id();
  std::uint64_t meetings_ = 0, splits_ = 0;
};

/// Runs `body` as that many ranks. What a rank throws fails the test; the others may then wait for ever, so
/// failures that are expected are caught inside.
inline void run_ranks(int ranks, bool any_thread, const std::function<void(Communicator&)>& body) {
  const auto world = std::make_shared<ThreadWorld>(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      ThreadCommunicator comm(world, rank, any_thread);
      body(comm);
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace cairn
