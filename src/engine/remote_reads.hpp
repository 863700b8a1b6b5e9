// SPDX-License-Identifier: BSD-3-Clause
// Reading files that other ranks have and this one has not: it asks for ranges in the order in which it needs
// them, they read and answer. Nobody sends what was not asked for, so that the memory on both sides is
// bounded by the number of requests on their way. Either the coordinator asks and the others serve it, or all
// ranks do both.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cairn/communicator.hpp"
#include "cairn/device.hpp"
#include "cairn/error.hpp"
#include "engine/read_server.hpp"

namespace cairn {

/// The side that asks: the coordinator, which is rank 0 of the communicator, or each of all ranks.
class RemoteReads {
 public:
  /// Local. `comm` is used for nothing else and outlives the object. At most `requests` (1 to kMostRequests)
  /// are on their way to one rank. `link`: for run() only, if serve_reads() has it on all other ranks. When
  /// it fails so do the reads that it carries.
  RemoteReads(Communicator& comm, int requests, DeviceLink* link = nullptr);
  ~RemoteReads();

  /// Runs `body` on another thread, while this one, the only one to use the communicator, carries the
  /// messages of its reads; it is attended and at work meanwhile (parallel/attention.hpp). Throws what `body`
  /// throws. Every rank that is asked must be in serve_reads().
  void run(const std::function<void()>& body);
  /// Collective. run() on all ranks at once: each answers the others, by `read`, until all are done. What
  /// fails in `read` is thrown by its rank, as the body that asked threw it, and not by the one that asked.
  /// Holds as many buffers as serve_reads().
  void run_on_all(const std::function<void()>& body, const ReadFile& read);

  /// For the body of run() and threads that it started, several at a time. Reads bytes of a file of `rank`,
  /// in that rank's numbering. Throws the Error that the read failed with over there.
  void read(int rank, std::uint32_t file, std::uint64_t byte_offset, std::span<std::byte> into);

  /// The rank where a read failed with this Error, if it came from one; context may have been added.
  std::optional<int> origin(const Error& error) const;

  /// Ends serve_reads() on `rank`, which throws `failure` there if it is given.
  void dismiss(int rank, const Error* failure);

 private:
  struct Asked;
  struct Running;
  struct GivenUp;
  void run_beside(const std::function<void()>& body, const std::function<void()>& carry);
  void carry();
  void carry_and_serve(ReadServer& server);
  void leave();
  std::optional<Error> thrown_error() const;
  bool is_carrying() const;
  bool wait_for_reads(std::chrono::microseconds at_most);
  bool step();
  void start(Asked& asked, std::uint32_t slot);
  bool finished(Running& running);
  bool arrived_by_device(Running& running, std::uint64_t number);
  void receive_by_device(Running& running, std::uint64_t number);
  void break_link(const Error& error);
  void tell_given_up(int rank);
  Error receive_error(const Running& running, std::uint64_t text_bytes);
  void finish(Asked& asked);
  void fail_all(const Error& error);

  Communicator& comm_;
  const int requests_;
  DeviceLink* const link_;
  std::optional<Error> link_error_;       // why it is of no more use
  std::vector<std::uint64_t> by_device_;  // answers that this rank has begun to receive, by rank
  std::deque<GivenUp> given_up_;          // messages
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Asked*> waiting_;                         // guarded; in the order of the reads
  bool done_ = false;                                  // guarded; the body
  std::exception_ptr thrown_;                          // by the body, before it is done
  std::optional<Error> broken_;                        // guarded; no message can be carried any more
  std::vector<std::pair<int, std::string>> failures_;  // guarded; latest reads that failed, by rank
  std::vector<std::unique_ptr<Running>> running_;      // by slot; empty ones are null
  std::vector<int> on_their_way_;                      // by rank
};

}  // namespace cairn
