// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/nccl_transfers.hpp"

#include <algorithm>

namespace cairn {
namespace {

constexpr std::size_t kLeastRoom = 1 << 20;

}  // namespace

/// Memory of the device, where what is received lies until it is copied out.
class NcclTransfers::Room {
 public:
  Room(const CudaMemory& memory, std::size_t bytes) : cuda_(memory.calls()), bytes_(bytes) {
    check_cuda(cuda_, cuda_.device_malloc(&data_, bytes), "cudaMalloc", memory.device());
  }
  ~Room() { cuda_.device_free(data_); }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t bytes() const { return bytes_; }

 private:
  const CudaCalls& cuda_;
  std::size_t bytes_;
  void* data_ = nullptr;
};

class NcclTransfers::Transfer final : public DeviceLink::Transfer {
 public:
  Transfer(NcclTransfers& all, const std::byte* from, std::size_t bytes, int to)
      : all_(all), from_(from), bytes_(bytes), peer_(to) {
    make_event();
  }
  Transfer(NcclTransfers& all, std::unique_ptr<Room> room, std::span<std::byte> into, int from)
      : all_(all), room_(std::move(room)), into_(into), bytes_(into.size()), peer_(from) {
    make_event();
  }
  ~Transfer() override {
    if (!is_done_ && session().is_alive()) all_.break_off();
    session().cuda().event_destroy(event_);
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  bool is_done() override {
    if (is_done_) return true;
    session().require_alive();
    try {
      const OnCudaDevice here(session().cuda(), device());
      all_.advance();
      is_done_ = has_ended();
      if (is_done_ && room_) hand_over();
      return is_done_;
    } catch (...) {
      is_done_ = false;
      all_.break_off();
      throw;
    }
  }

  void ask() const {
    const NcclCalls& nccl = session().nccl();
    if (room_) {
      check_nccl(nccl,
                 nccl.receive(room_->data(), bytes_, kNcclBytes, peer_, session().comm(), session().stream()),
                 "ncclRecv");
    } else {
      check_nccl(nccl, nccl.send(from_, bytes_, kNcclBytes, peer_, session().comm(), session().stream()),
                 "ncclSend");
    }
  }
  /// What it asked for is in the stream.
  void mark() {
    check_cuda(session().cuda(), session().cuda().event_record(event_, session().stream()), "cudaEventRecord",
               device());
    is_marked_ = true;
  }

 private:
  NcclSession& session() const { return all_.session_; }
  int device() const { return session().memory().device(); }
  void make_event() {
    check_cuda(session().cuda(), session().cuda().event_create(&event_, kCudaEventDisableTiming),
               "cudaEventCreateWithFlags", device());
  }
  bool has_ended() const {
    if (!is_marked_) return false;
    session().is_idle();  // throws what has failed in the background
    const CudaStatus status = session().cuda().event_query(event_);
    if (status == kCudaNotReady) return false;
    check_cuda(session().cuda(), status, "cudaEventQuery", device());
    return true;
  }
  void hand_over() {
    session().memory().copy_out(room_->data(), into_);
    all_.free_rooms_.push_back(std::move(room_));
  }

  NcclTransfers& all_;
  std::unique_ptr<Room> room_;  // of what is received
  const std::byte* from_ = nullptr;
  std::span<std::byte> into_;
  std::size_t bytes_;
  int peer_;
  CudaEvent event_ = nullptr;
  bool is_marked_ = false, is_done_ = false;
};

NcclTransfers::NcclTransfers(NcclSession& session) : session_(session) {}
NcclTransfers::~NcclTransfers() = default;

std::unique_ptr<DeviceLink::Transfer> NcclTransfers::send(std::span<const std::byte> bytes, int to) {
  session_.require_alive();
  const OnCudaDevice here(session_.cuda(), session_.memory().device());
  auto transfer = std::make_unique<Transfer>(*this, bytes.data(), bytes.size(), to);
  waiting_.push_back(transfer.get());
  return transfer;
}

std::unique_ptr<DeviceLink::Transfer> NcclTransfers::receive(std::span<std::byte> into, int from) {
  session_.require_alive();
  const OnCudaDevice here(session_.cuda(), session_.memory().device());
  auto transfer = std::make_unique<Transfer>(*this, take_room(into.size()), into, from);
  waiting_.push_back(transfer.get());
  return transfer;
}

std::unique_ptr<NcclTransfers::Room> NcclTransfers::take_room(std::size_t bytes) {
  const auto fits = [&](const auto& room) { return room->bytes() >= bytes; };
  const auto found = std::ranges::find_if(free_rooms_, fits);
  if (found == free_rooms_.end()) {
    free_rooms_.clear();
    return std::make_unique<Room>(session_.memory(), std::max(bytes, kLeastRoom));
  }
  auto room = std::move(*found);
  free_rooms_.erase(found);
  return room;
}

// NCCL takes up one after the other; what it has taken up goes on meanwhile.
void NcclTransfers::advance() {
  while (!waiting_.empty()) {
    Transfer& first = *waiting_.front();
    if (!is_asked_) first.ask();
    is_asked_ = true;
    if (!session_.is_idle()) return;
    first.mark();
    waiting_.pop_front();
    is_asked_ = false;
  }
}

void NcclTransfers::break_off() noexcept {
  waiting_.clear();
  is_asked_ = false;
  session_.abandon();
}

}  // namespace cairn
