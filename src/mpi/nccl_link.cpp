// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/nccl_link.hpp"

#include <algorithm>
#include <cstring>

#include "base/fail.hpp"
#include "cairn/mpi.hpp"
#include "parallel/agree.hpp"
#include "parallel/common_end.hpp"

namespace cairn {
namespace {

constexpr int kRoot = 0;
constexpr std::size_t kPiecesOfAGroup = 256;

class NcclLink final : public DeviceLink {
 public:
  NcclLink(Communicator& comm, const NcclCalls& nccl, std::shared_ptr<CudaMemory> memory)
      : nccl_(nccl), memory_(std::move(memory)), cuda_(memory_->calls()), comm_(comm.duplicate()) {
    try {
      start();
    } catch (...) {
      abandon();
      throw;
    }
  }
  /// What was started has ended, or the link has failed: nothing to wait for.
  ~NcclLink() override { abandon(); }
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  int size() const override { return comm_->size(); }
  bool reaches(const DeviceMemory& memory) const override {
    const auto* other = dynamic_cast<const CudaMemory*>(&memory);
    return other != nullptr && &other->calls() == &cuda_ && other->device() == memory_->device();
  }

  void broadcast(std::span<const Piece> pieces) override {
    on_all_ranks("broadcasting by NCCL", *comm_, [&] {
      if (link_ == nullptr) fail(ErrorKind::io, "the link between the devices has failed before");
    });
    try {
      poll_on_all_ranks("broadcasting by NCCL", *comm_, [this, rest = pieces, running = false]() mutable {
        const OnCudaDevice here(cuda_, memory_->device());
        if (running && !has_ended()) return false;
        running = !rest.empty();
        if (running) rest = launch_group(rest);
        return !running;
      });
    } catch (...) {
      abandon();
      throw;
    }
  }

 private:
  void start() {
    const Bytes id = on_root("starting NCCL", *comm_, kRoot, [&] { return new_id(); });
    on_all_ranks("starting NCCL", *comm_, [&] {
      const OnCudaDevice here(cuda_, memory_->device());
      check_cuda(cuda_, cuda_.stream_create(&stream_, kCudaStreamNonBlocking), "cudaStreamCreateWithFlags",
                 memory_->device());
    });
    poll_on_all_ranks("starting NCCL", *comm_, [&] {
      const OnCudaDevice here(cuda_, memory_->device());
      if (link_ == nullptr) join(id);
      return is_idle();
    });
  }

  Bytes new_id() const {
    const OnCudaDevice here(cuda_, memory_->device());
    NcclUniqueId id;
    check_nccl(nccl_, nccl_.get_unique_id(&id), "ncclGetUniqueId");
    Bytes bytes(sizeof id);
    std::memcpy(bytes.data(), &id, sizeof id);
    return bytes;
  }

  void join(const Bytes& bytes) {
    NcclUniqueId id;
    std::memcpy(&id, bytes.data(), sizeof id);
    NcclConfig config;
    const NcclStatus status = nccl_.comm_init(&link_, comm_->size(), id, comm_->rank(), &config);
    check_nccl(nccl_, status, "ncclCommInitRankConfig");
  }

  // Whether NCCL has taken up what it was asked for.
  bool is_idle() const {
    NcclStatus state = kNcclSuccess;
    check_nccl(nccl_, nccl_.comm_get_async_error(link_, &state), "ncclCommGetAsyncError");
    check_nccl(nccl_, state, "NCCL");
    return state == kNcclSuccess;
  }

  bool has_ended() const {
    if (!is_idle()) return false;
    const CudaStatus status = cuda_.stream_query(stream_);
    if (status == kCudaNotReady) return false;
    check_cuda(cuda_, status, "cudaStreamQuery", memory_->device());
    return true;
  }

  // Returns the pieces that are left.
  std::span<const Piece> launch_group(std::span<const Piece> pieces) const {
    const auto now = pieces.first(std::min(pieces.size(), kPiecesOfAGroup));
    check_nccl(nccl_, nccl_.group_start(), "ncclGroupStart");
    for (const Piece& piece : now) {
      check_nccl(
          nccl_,
          nccl_.broadcast(piece.data, piece.data, piece.byte_count, kNcclBytes, piece.root, link_, stream_),
          "ncclBroadcast");
    }
    check_nccl(nccl_, nccl_.group_end(), "ncclGroupEnd");
    return pieces.subspan(now.size());
  }

  void abandon() noexcept {
    if (link_ != nullptr) nccl_.comm_abort(link_);
    if (stream_ != nullptr) cuda_.stream_destroy(stream_);
    link_ = nullptr;
    stream_ = nullptr;
  }

  const NcclCalls& nccl_;
  const std::shared_ptr<CudaMemory> memory_;
  const CudaCalls& cuda_;
  const std::unique_ptr<Communicator> comm_;
  CudaStream stream_ = nullptr;
  NcclComm link_ = nullptr;  // null: it has failed
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
