// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/nccl_link.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "cairn/mpi.hpp"
#include "mpi/nccl_session.hpp"
#include "mpi/nccl_transfers.hpp"
#include "parallel/agree.hpp"
#include "parallel/common_end.hpp"

namespace cairn {
namespace {

constexpr int kRoot = 0;
constexpr std::size_t kPiecesOfAGroup = 256;

class NcclLink final : public DeviceLink {
 public:
  NcclLink(Communicator& comm, const NcclCalls& nccl, std::shared_ptr<CudaMemory> memory)
      : comm_(comm.duplicate()), session_(nccl, std::move(memory)), transfers_(session_) {
    start();
  }

  int size() const override { return comm_->size(); }
  bool reaches(const DeviceMemory& memory) const override {
    const auto* other = dynamic_cast<const CudaMemory*>(&memory);
    return other != nullptr && &other->calls() == &session_.cuda() && other->device() == device();
  }

  void broadcast(std::span<const Piece> pieces) override {
    on_all_ranks("broadcasting by NCCL", *comm_, [&] { session_.require_alive(); });
    try {
      poll_on_all_ranks("broadcasting by NCCL", *comm_, [this, rest = pieces, running = false]() mutable {
        const OnCudaDevice here(session_.cuda(), device());
        if (running && !has_ended()) return false;
        running = !rest.empty();
        if (running) rest = launch_group(rest);
        return !running;
      });
    } catch (...) {
      transfers_.break_off();
      throw;
    }
  }

  std::unique_ptr<Transfer> start_send(std::span<const std::byte> bytes, int to) override {
    return transfers_.send(bytes, to);
  }
  std::unique_ptr<Transfer> start_receive(std::span<std::byte> into, int from) override {
    return transfers_.receive(into, from);
  }

 private:
  int device() const { return session_.memory().device(); }

  void start() {
    const Bytes id = on_root("starting NCCL", *comm_, kRoot, [&] {
      const OnCudaDevice here(session_.cuda(), device());
      return session_.new_id();
    });
    on_all_ranks("starting NCCL", *comm_, [&] {
      const OnCudaDevice here(session_.cuda(), device());
      session_.make_stream();
    });
    poll_on_all_ranks("starting NCCL", *comm_, [&] {
      const OnCudaDevice here(session_.cuda(), device());
      if (!session_.is_alive()) session_.join(id, comm_->rank(), comm_->size());
      return session_.is_idle();
    });
  }

  bool has_ended() const {
    if (!session_.is_idle()) return false;
    const CudaStatus status = session_.cuda().stream_query(session_.stream());
    if (status == kCudaNotReady) return false;
    check_cuda(session_.cuda(), status, "cudaStreamQuery", device());
    return true;
  }

  // Returns the pieces that are left.
  std::span<const Piece> launch_group(std::span<const Piece> pieces) const {
    const NcclCalls& nccl = session_.nccl();
    const auto now = pieces.first(std::min(pieces.size(), kPiecesOfAGroup));
    check_nccl(nccl, nccl.group_start(), "ncclGroupStart");
    NcclStatus status = kNcclSuccess;
    const auto is_fine = [&] { return status == kNcclSuccess || status == kNcclInProgress; };
    for (auto piece = now.begin(); piece != now.end() && is_fine(); ++piece) {
      status = nccl.broadcast(piece->data, piece->data, piece->byte_count, kNcclBytes, piece->root,
                              session_.comm(), session_.stream());
    }
    const NcclStatus ended = nccl.group_end();  // whatever came: an open group would take in what comes next
    check_nccl(nccl, status, "ncclBroadcast");
    check_nccl(nccl, ended, "ncclGroupEnd");
    return pieces.subspan(now.size());
  }

  const std::unique_ptr<Communicator> comm_;
  NcclSession session_;  // its end abandons what has failed; else all has ended
  NcclTransfers transfers_;
};

std::unique_ptr<DeviceLink> link_or_error(Communicator& comm, std::shared_ptr<DeviceMemory> memory) {
  std::shared_ptr<CudaMemory> cuda;
  const NcclCalls* nccl = nullptr;
  on_all_ranks("looking for NCCL", comm, [&] {
    cuda = std::dynamic_pointer_cast<CudaMemory>(memory);
    if (!cuda) fail(ErrorKind::unsupported, "NCCL needs the memory of a CUDA device");
    nccl = &nccl_library();
  });
  return make_nccl_link(comm, *nccl, std::move(cuda));
}

}  // namespace

std::unique_ptr<DeviceLink> make_nccl_link(Communicator& comm, const NcclCalls& nccl,
                                           std::shared_ptr<CudaMemory> memory) {
  return std::make_unique<NcclLink>(comm, nccl, std::move(memory));
}

std::unique_ptr<DeviceLink> nccl_link(Communicator& comm, std::shared_ptr<DeviceMemory> memory, UseNccl use,
                                      std::string* why_not) {
  const std::uint64_t uses = agree(comm, std::uint64_t{1} << static_cast<int>(use));
  if (uses != std::uint64_t{1} << static_cast<int>(use))
    fail(ErrorKind::invalid_argument, "ranks differ in whether NCCL is to be used");
  if (use == UseNccl::off) return nullptr;
  try {
    return link_or_error(comm, std::move(memory));
  } catch (const Error& error) {
    if (use == UseNccl::on) throw;
    if (why_not != nullptr) *why_not = error.what();
    return nullptr;
  }
}

}  // namespace cairn
