// SPDX-License-Identifier: BSD-3-Clause
// A table of NCCL over memory that the ranks of a node share, for streams of a FakeCuda. As in NCCL, an
// operation on one rank does not end, and nothing tells why, while another has not begun it; and nothing may
// be asked for before what was asked for last is taken up. Each call can be made to fail.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "cairn/communicator.hpp"
#include "device/fake_cuda.hpp"
#include "mpi/nccl_calls.hpp"

namespace cairn {

/// One at a time in a process; making and destroying it is collective.
class FakeNccl {
 public:
  static constexpr const char* kBadText = "unhandled system error";

  FakeNccl(Communicator& comm, FakeCuda& cuda)
      : cuda_(cuda),
        rank_(comm.rank()),
        ranks_(comm.size()),
        memory_(comm.share_memory(sizeof(Mailbox) * static_cast<std::size_t>(ranks_ * ranks_))) {
    if (!memory_) throw std::runtime_error("no shared memory");
    here_ = this;
  }
  ~FakeNccl() { here_ = nullptr; }
  FakeNccl(const FakeNccl&) = delete;
  FakeNccl& operator=(const FakeNccl&) = delete;

  const NcclCalls& calls() const { return kCalls; }
  void fail_call(int n) { calls_left_ = n; }
  /// From the n-th poll on what it does in the background has failed.
  void fail_in_the_background(int n) { polls_left_ = n; }
  int counted() const { return counted_; }
  std::uint64_t broadcast_bytes() const { return broadcast_bytes_; }
  std::uint64_t sent_bytes() const { return sent_bytes_; }

 private:
  struct Mailbox {
    std::atomic<std::uint32_t> bytes;  // 0: empty
    std::byte content[4096];
  };
  /// How far an operation is.
  struct Progress {
    std::byte* data;
    std::size_t count;
    int root;                       // who has the bytes
    int to;                         // or kAll
    std::vector<std::size_t> done;  // by the other rank
  };
  static constexpr int kAll = -1;
  static constexpr NcclStatus kBad = 2;
  static constexpr int kPollsInProgress = 2;

  Mailbox& mailbox(int from, int to) const {
    return reinterpret_cast<Mailbox*>(memory_->bytes().data())[from * ranks_ + to];
  }

  bool send(Progress& progress, int to) const {
    std::size_t& done = progress.done[static_cast<std::size_t>(to)];
    Mailbox& box = mailbox(rank_, to);
    while (done < progress.count && box.bytes == 0) {
      const auto bytes = std::min(sizeof box.content, progress.count - done);
      std::memcpy(box.content, progress.data + done, bytes);
      box.bytes = static_cast<std::uint32_t>(bytes);
      done += bytes;
    }
    return done == progress.count;
  }
  bool receive(Progress& progress) const {
    std::size_t& done = progress.done[static_cast<std::size_t>(progress.root)];
    Mailbox& box = mailbox(progress.root, rank_);
    while (done < progress.count && box.bytes != 0) {
      std::memcpy(progress.data + done, box.content, box.bytes);
      done += box.bytes;
      box.bytes = 0;
    }
    return done == progress.count;
  }
  bool advance(Progress& progress) const {
    if (progress.root != rank_) return receive(progress);
    if (progress.to != kAll) return send(progress, progress.to);
    bool is_done = true;
    for (int to = 0; to < ranks_; ++to) is_done = (to == rank_ || send(progress, to)) && is_done;
    return is_done;
  }

  /// Whether this call is to fail.
  static bool fails() {
    ++here_->counted_;
    return here_->calls_left_ >= 0 && here_->calls_left_-- == 0;
  }
  static bool is_busy() { return here_->busy_polls_ > 0; }
  Progress progress_of(const void* data, std::size_t count, int root, int to) const {
    return {cuda_.shadow_of(data), count, root, to,
            std::vector<std::size_t>(static_cast<std::size_t>(ranks_))};
  }
  void be_busy() { busy_polls_ = kPollsInProgress; }

  static const char* get_error_string(NcclStatus status) { return status == kBad ? kBadText : "?"; }
  static NcclStatus get_version(int* version) {
    *version = 23000;
    return kNcclSuccess;
  }
  static NcclStatus get_unique_id(NcclUniqueId* id) {
    if (fails()) return kBad;
    std::ranges::fill(id->internal, 'x');
    return kNcclSuccess;
  }
  static NcclStatus comm_init(NcclComm* comm, int ranks, NcclUniqueId id, int rank, NcclConfig* config) {
    if (fails()) return kBad;
    const bool is_right = ranks == here_->ranks_ && rank == here_->rank_ && id.internal[127] == 'x' &&
                          config->blocking == 0 && config->magic == 0xcafebeef;
    if (!is_right) return kBad;
    *comm = reinterpret_cast<NcclComm>(here_);
    here_->be_busy();
    return kNcclInProgress;
  }
  static NcclStatus comm_abort(NcclComm) {
    here_->cuda_.clear(here_->stream_);
    here_->group_.clear();
    here_->busy_polls_ = 0;
    return kNcclSuccess;
  }
  static NcclStatus comm_get_async_error(NcclComm, NcclStatus* state) {
    if (fails()) return kBad;
    if (here_->polls_left_ == 0) {
      *state = kBad;
      return kNcclSuccess;
    }
    if (here_->polls_left_ > 0) --here_->polls_left_;
    *state = here_->busy_polls_ > 0 ? kNcclInProgress : kNcclSuccess;
    if (here_->busy_polls_ > 0 && --here_->busy_polls_ == 0) here_->take_up();
    return kNcclSuccess;
  }
  static NcclStatus group_start() {
    if (fails() || is_busy()) return kBad;
    here_->group_.clear();
    return kNcclSuccess;
  }
  static NcclStatus group_end() {
    if (fails()) return kBad;
    here_->be_busy();
    return kNcclInProgress;
  }
  static NcclStatus broadcast(const void* from, void* into, std::size_t count, int type, int root, NcclComm,
                              CudaStream stream) {
    if (fails()) return kBad;
    if (from != into || type != kNcclBytes || !here_->cuda_.owns(into)) return kBad;
    here_->stream_ = stream;
    here_->broadcast_bytes_ += count;
    here_->group_.push_back(here_->progress_of(into, count, root, kAll));
    return kNcclSuccess;
  }
  /// Alone, not in a group.
  static NcclStatus start(const void* data, std::size_t count, int type, int root, int to,
                          CudaStream stream) {
    if (fails() || is_busy()) return kBad;
    if (type != kNcclBytes || !here_->cuda_.owns(data)) return kBad;
    here_->stream_ = stream;
    here_->group_.push_back(here_->progress_of(data, count, root, to));
    here_->be_busy();
    return kNcclInProgress;
  }
  static NcclStatus send_call(const void* from, std::size_t count, int type, int to, NcclComm,
                              CudaStream stream) {
    here_->sent_bytes_ += count;
    return start(from, count, type, here_->rank_, to, stream);
  }
  static NcclStatus receive_call(void* into, std::size_t count, int type, int from, NcclComm,
                                 CudaStream stream) {
    return start(into, count, type, from, here_->rank_, stream);
  }
  void take_up() {
    for (Progress& progress : group_) {
      cuda_.enqueue(
          stream_, [this, kept = std::make_shared<Progress>(std::move(progress))] { return advance(*kept); });
    }
    group_.clear();
  }

  static inline FakeNccl* here_ = nullptr;
  static constexpr NcclCalls kCalls{get_error_string,     get_version, get_unique_id, comm_init, comm_abort,
                                    comm_get_async_error, group_start, group_end,     broadcast, send_call,
                                    receive_call};

  FakeCuda& cuda_;
  const int rank_, ranks_;
  const std::unique_ptr<SharedMemory> memory_;
  std::vector<Progress> group_;
  CudaStream stream_ = nullptr;
  int busy_polls_ = 0, calls_left_ = -1, polls_left_ = -1, counted_ = 0;
  std::uint64_t broadcast_bytes_ = 0, sent_bytes_ = 0;
};

}  // namespace cairn
