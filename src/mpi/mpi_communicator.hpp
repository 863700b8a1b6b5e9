// SPDX-License-Identifier: BSD-3-Clause
// The ranks of an MPI communicator as a Communicator.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>

#include "cairn/communicator.hpp"

namespace cairn {

/// Owns a communicator handle; freed with the object unless MPI has ended by then.
class MpiCommunicator final : public Communicator {
 public:
  /// MPI counts are ints, so broadcast and gather move pieces. They are small because the wait for a piece
  /// polls without sleep only in its first milliseconds: a late rank then slows down one piece.
  static constexpr std::uint64_t default_piece_bytes = std::uint64_t{4} << 20;
  static constexpr std::uint64_t most_message_bytes = std::uint64_t{1} << 30;

  /// Collective over `owned`, which this takes over. `piece_bytes` is the same on all ranks, at most
  /// most_message_bytes; tests lower it.
  explicit MpiCommunicator(MPI_Comm owned, std::uint64_t piece_bytes = default_piece_bytes);
  ~MpiCommunicator() override;
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int ranks_on_node() const override { return ranks_on_node_; }
  bool any_thread() const override { return any_thread_; }
  std::unique_ptr<Request> start_agree(std::uint64_t word, std::uint64_t& result) override;
  std::unique_ptr<Request> start_barrier() override;
  void broadcast(Bytes& bytes, int root) override;
  std::vector<Bytes> gather(std::span<const std::byte> bytes, int root) override;
  std::unique_ptr<Request> start_send(std::span<const std::byte> bytes, int to, int tag) override;
  std::unique_ptr<Request> start_receive(std::span<std::byte> into, int from, int tag) override;
  std::unique_ptr<Communicator> split(int color, int key) override;
  std::unique_ptr<Communicator> duplicate() override;
  std::unique_ptr<Communicator> on_node() override;
  std::unique_ptr<SharedMemory> share_memory(std::size_t bytes) override;
  void abort(int status) override;

 private:
  /// Collective. Sizes the receive buffers on the ranks that have any; all throw when one has no memory.
  template <class Resize>
  void make_room(Resize resize);
  std::vector<std::uint64_t> gather_lengths(std::uint64_t length, int root);
  void send_pieces(std::span<const std::byte> bytes, int root);
  void receive_pieces(std::vector<Bytes>& parts, int root);
  std::unique_ptr<Request> post_send(std::span<const std::byte> bytes, int to, int tag);
  std::unique_ptr<Request> post_receive(std::span<std::byte> into, int from, int tag);

  MPI_Comm comm_;
  std::uint64_t piece_bytes_;
  int rank_ = 0, size_ = 1, ranks_on_node_ = 1;
  bool any_thread_ = false;
};

}  // namespace cairn
