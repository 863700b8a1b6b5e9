// SPDX-License-Identifier: BSD-3-Clause
// A communicator that hands all calls on; tests override those that they are about.
#pragma once

#include <cstdlib>
#include <memory>
#include <utility>

#include "cairn/communicator.hpp"

namespace cairn {

class ForwardingCommunicator : public Communicator {
 public:
  explicit ForwardingCommunicator(std::unique_ptr<Communicator> inner) : inner_(std::move(inner)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  int ranks_on_node() const override { return inner_->ranks_on_node(); }
  bool any_thread() const override { return inner_->any_thread(); }
  std::unique_ptr<Request> start_agree(std::uint64_t word, std::uint64_t& result) override {
    return inner_->start_agree(word, result);
  }
  std::unique_ptr<Request> start_barrier() override { return inner_->start_barrier(); }
  void broadcast(Bytes& bytes, int root) override { inner_->broadcast(bytes, root); }
  std::vector<Bytes> gather(std::span<const std::byte> bytes, int root) override {
    return inner_->gather(bytes, root);
  }
  std::unique_ptr<Request> start_send(std::span<const std::byte> bytes, int to, int tag) override {
    return inner_->start_send(bytes, to, tag);
  }
  std::unique_ptr<Request> start_receive(std::span<std::byte> into, int from, int tag) override {
    return inner_->start_receive(into, from, tag);
  }
  std::unique_ptr<Communicator> split(int color, int key) override { return inner_->split(color, key); }
  std::unique_ptr<Communicator> duplicate() override { return inner_->duplicate(); }
  std::unique_ptr<Communicator> on_node() override { return inner_->on_node(); }
  std::unique_ptr<SharedMemory> share_memory(std::size_t bytes) override {
    return inner_->share_memory(bytes);
  }
  [[noreturn]] void abort(int status) override {
    inner_->abort(status);
    std::abort();
  }

 protected:
  std::unique_ptr<Communicator> inner_;
};

}  // namespace cairn
