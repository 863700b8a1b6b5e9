// SPDX-License-Identifier: BSD-3-Clause
// NCCL's communicator of one rank and the stream that it works on. Nothing here waits. Local, but for what
// NCCL does with the other ranks.
#pragma once

#include <memory>

#include "base/byte_writer.hpp"
#include "device/cuda_memory.hpp"
#include "mpi/nccl_calls.hpp"

namespace cairn {

/// What is asked of NCCL is done in the background; only one thing may be on its way to being taken up.
/// Callers are on the device (OnCudaDevice).
class NcclSession {
 public:
  /// `nccl` outlives the object.
  NcclSession(const NcclCalls& nccl, std::shared_ptr<CudaMemory> memory);
  ~NcclSession() { abandon(); }
  NcclSession(const NcclSession&) = delete;
  NcclSession& operator=(const NcclSession&) = delete;

  const NcclCalls& nccl() const { return nccl_; }
  const CudaCalls& cuda() const { return cuda_; }
  CudaMemory& memory() const { return *memory_; }
  NcclComm comm() const { return comm_; }
  CudaStream stream() const { return stream_; }

  /// By one rank; the others get it by other ways.
  Bytes new_id() const;
  void make_stream();
  void join(const Bytes& id, int rank, int ranks);

  bool is_alive() const { return comm_ != nullptr; }
  /// Throws io after abandon(), and before join().
  void require_alive() const;
  /// Whether NCCL has taken up what it was asked for. Throws io when anything has failed.
  bool is_idle() const;
  /// Ends all that is on its way, here; on the other ranks it may hang, until they do the same.
  void abandon() noexcept;

 private:
  const NcclCalls& nccl_;
  const std::shared_ptr<CudaMemory> memory_;
  const CudaCalls& cuda_;
  CudaStream stream_ = nullptr;
  NcclComm comm_ = nullptr;
};

}  // namespace cairn
