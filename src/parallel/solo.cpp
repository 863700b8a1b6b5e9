// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstdlib>
#include <deque>
#include <map>
#include <utility>

#include "base/fail.hpp"
#include "cairn/communicator.hpp"

namespace cairn {

namespace {

class Done final : public Request {
 public:
  bool test() override { return true; }
  void wait() override {}
};

using Mailbox = std::map<int, std::deque<Bytes>>;  // by tag, oldest first

class Receive final : public Request {
 public:
  Receive(Mailbox& mailbox, std::span<std::byte> into, int tag) : mailbox_(mailbox), into_(into), tag_(tag) {}

  bool test() override {
    auto& messages = mailbox_[tag_];
    if (done_ || messages.empty()) return done_;
    done_ = true;
    const Bytes message = std::move(messages.front());
    messages.pop_front();
    if (message.size() != into_.size()) {
      fail(ErrorKind::io, "a message of {} bytes was expected, {} came", into_.size(), message.size());
    }
    std::copy(message.begin(), message.end(), into_.begin());
    return true;
  }
  void wait() override {
    if (!test()) fail(ErrorKind::invalid_argument, "nothing was sent with tag {}: it would never come", tag_);
  }

 private:
  Mailbox& mailbox_;
  std::span<std::byte> into_;
  int tag_;
  bool done_ = false;
};

void check_self(int rank) {
  if (rank != 0) fail(ErrorKind::invalid_argument, "rank {} does not exist: this is a world of one", rank);
}

class OwnMemory final : public SharedMemory {
 public:
  explicit OwnMemory(std::size_t bytes) : lines_(bytes / sizeof(Line) + 1), size_(bytes) {}
  std::span<std::byte> bytes() override { return {lines_[0].bytes, size_}; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> lines_;
  std::size_t size_;
};

class SoloCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int ranks_on_node() const override { return 1; }
  bool any_thread() const override { return true; }

  std::unique_ptr<Request> start_agree(std::uint64_t word, std::uint64_t& result) override {
    result = word;
    return std::make_unique<Done>();
  }
  std::unique_ptr<Request> start_barrier() override { return std::make_unique<Done>(); }

  void broadcast(Bytes&, int root) override { check_self(root); }
  std::vector<Bytes> gather(std::span<const std::byte> bytes, int root) override {
    check_self(root);
    return {Bytes(bytes.begin(), bytes.end())};
  }

  std::unique_ptr<Request> start_send(std::span<const std::byte> bytes, int to, int tag) override {
    check_self(to);
    mailbox_[tag].emplace_back(bytes.begin(), bytes.end());
    return std::make_unique<Done>();
  }
  std::unique_ptr<Request> start_receive(std::span<std::byte> into, int from, int tag) override {
    check_self(from);
    return std::make_unique<Receive>(mailbox_, into, tag);
  }

  std::unique_ptr<Communicator> split(int, int) override { return solo_communicator(); }
  std::unique_ptr<Communicator> duplicate() override { return solo_communicator(); }
  std::unique_ptr<Communicator> on_node() override { return solo_communicator(); }
  std::unique_ptr<SharedMemory> share_memory(std::size_t bytes) override {
    return std::make_unique<OwnMemory>(bytes);
  }
  void abort(int status) override { std::_Exit(status); }

 private:
  Mailbox mailbox_;
};

}  // namespace

std::unique_ptr<Communicator> solo_communicator() { return std::make_unique<SoloCommunicator>(); }

}  // namespace cairn
