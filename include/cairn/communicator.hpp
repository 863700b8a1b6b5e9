// SPDX-License-Identifier: BSD-3-Clause
// Row: parallel. What Cairn needs from the ranks of a job. An MPI program gets one from cairn/mpi.hpp; a
// single process uses solo_communicator().
//
// "Collective": every rank of the communicator calls it, in the same order. "Local": no rank waits for
// another. Outside src/parallel and src/mpi nobody calls a collective where some rank may have failed before:
// what can fail runs inside on_all_ranks(), see parallel/agree.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace cairn {

using Bytes = std::vector<std::byte>;

/// A running operation. Local.
class Request {
 public:
  virtual ~Request() = default;  ///< waits if not done
  virtual bool test() = 0;       ///< true once done; never blocks
  virtual void wait() = 0;
};

/// Memory that ranks of one node see, each at an address of its own. Zero at first, aligned to 64 bytes.
/// Destruction is collective.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;
  virtual std::span<std::byte> bytes() = 0;  ///< local
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;  ///< local
  virtual int size() const = 0;  ///< local
  /// Local. How many ranks of this communicator run on this rank's node, this one included.
  virtual int ranks_on_node() const = 0;
  /// Local. Whether several threads may use communicators at once, each its own.
  virtual bool any_thread() const = 0;

  /// Collective. Starts the bitwise OR of `word` over all ranks; `result` is set when the request is done.
  virtual std::unique_ptr<Request> start_agree(std::uint64_t word, std::uint64_t& result) = 0;
  /// Collective, non-blocking barrier.
  virtual std::unique_ptr<Request> start_barrier() = 0;

  /// Collective. `bytes` of `root` arrives in everybody's `bytes` (resized). Any length; cut at 1 GiB.
  virtual void broadcast(Bytes& bytes, int root) = 0;
  /// Collective. On `root` the result has one entry a rank, elsewhere it is empty. Any length; cut at 1 GiB.
  virtual std::vector<Bytes> gather(std::span<const std::byte> bytes, int root) = 0;

  /// Local. Point-to-point; at most 1 GiB a message; `tag` in [0, 1000). The buffer lives until done. A
  /// receive is io unless the message has exactly into.size() bytes.
  virtual std::unique_ptr<Request> start_send(std::span<const std::byte> bytes, int to, int tag) = 0;
  virtual std::unique_ptr<Request> start_receive(std::span<std::byte> into, int from, int tag) = 0;

  /// Collective. Ranks with one `color` (>= 0) form a new communicator, ordered by `key`, then by rank.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;
  /// Collective.
  virtual std::unique_ptr<Communicator> duplicate() = 0;
  /// Collective. The ranks of this communicator that run on this rank's node, in its order.
  virtual std::unique_ptr<Communicator> on_node() = 0;
  /// Collective over ranks of one node. nullptr on all of them where such memory is not to be had.
  virtual std::unique_ptr<SharedMemory> share_memory(std::size_t bytes) = 0;

  /// Local. Ends all ranks of the job with this exit status. Does not return.
  [[noreturn]] virtual void abort(int status) = 0;
};

/// Collective. Blocking forms of the two above.
std::uint64_t agree(Communicator& comm, std::uint64_t word);
void barrier(Communicator& comm);

/// A world of one rank. Local.
std::unique_ptr<Communicator> solo_communicator();

}  // namespace cairn
