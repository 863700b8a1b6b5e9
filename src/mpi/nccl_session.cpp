// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/nccl_session.hpp"

#include <cstring>
#include <utility>

#include "base/fail.hpp"

namespace cairn {

NcclSession::NcclSession(const NcclCalls& nccl, std::shared_ptr<CudaMemory> memory)
    : nccl_(nccl), memory_(std::move(memory)), cuda_(memory_->calls()) {}

Bytes NcclSession::new_id() const {
  NcclUniqueId id;
  check_nccl(nccl_, nccl_.get_unique_id(&id), "ncclGetUniqueId");
  Bytes bytes(sizeof id);
  std::memcpy(bytes.data(), &id, sizeof id);
  return bytes;
}

void NcclSession::make_stream() {
  check_cuda(cuda_, cuda_.stream_create(&stream_, kCudaStreamNonBlocking), "cudaStreamCreateWithFlags",
             memory_->device());
}

void NcclSession::join(const Bytes& bytes, int rank, int ranks) {
  NcclUniqueId id;
  std::memcpy(&id, bytes.data(), sizeof id);
  NcclConfig config;
  check_nccl(nccl_, nccl_.comm_init(&comm_, ranks, id, rank, &config), "ncclCommInitRankConfig");
}

void NcclSession::require_alive() const {
  if (!is_alive()) fail(ErrorKind::io, "the link between the devices has failed before");
}

bool NcclSession::is_idle() const {
  NcclStatus state = kNcclSuccess;
  check_nccl(nccl_, nccl_.comm_get_async_error(comm_, &state), "ncclCommGetAsyncError");
  check_nccl(nccl_, state, "NCCL");
  return state == kNcclSuccess;
}

void NcclSession::abandon() noexcept {
  if (comm_ != nullptr) nccl_.comm_abort(std::exchange(comm_, nullptr));
  if (stream_ != nullptr) cuda_.stream_destroy(std::exchange(stream_, nullptr));
}

}  // namespace cairn
