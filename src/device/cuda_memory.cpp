// SPDX-License-Identifier: BSD-3-Clause
#include "device/cuda_memory.hpp"

#include <algorithm>
#include <array>

#include "base/fail.hpp"
#include "cairn/device.hpp"

namespace cairn {

/// Used by one copy at a time.
class CudaMemory::Lane {
 public:
  explicit Lane(const CudaMemory& memory) : memory_(memory), cuda_(memory.cuda_) {
    try {
      memory.check(cuda_.stream_create(&stream_, kCudaStreamNonBlocking), "cudaStreamCreateWithFlags");
      for (Buffer& buffer : buffers_) {
        memory.check(cuda_.host_malloc(&buffer.data, kCudaBufferBytes), "cudaMallocHost");
        memory.check(cuda_.event_create(&buffer.event, kCudaEventDisableTiming), "cudaEventCreateWithFlags");
      }
    } catch (...) {
      release();
      throw;
    }
  }
  ~Lane() { release(); }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// Pieces have the buffers in turn.
  std::span<std::byte> buffer(std::size_t piece) {
    return {static_cast<std::byte*>(at(piece).data), kCudaBufferBytes};
  }
  void start_out(std::size_t piece, const std::byte* from, std::size_t bytes) {
    start(piece, at(piece).data, from, bytes, kCudaDeviceToHost);
  }
  void start_in(std::size_t piece, std::byte* to, std::size_t bytes) {
    start(piece, to, at(piece).data, bytes, kCudaHostToDevice);
  }
  /// For the last piece that was started through the buffer.
  void wait_for(std::size_t piece) {
    memory_.check(cuda_.event_synchronize(at(piece).event), "cudaEventSynchronize");
  }
  void wait_for_all() { memory_.check(cuda_.stream_synchronize(stream_), "cudaStreamSynchronize"); }
  void abandon() noexcept { cuda_.stream_synchronize(stream_); }

 private:
  struct Buffer {
    void* data = nullptr;
    CudaEvent event = nullptr;
  };

  Buffer& at(std::size_t piece) { return buffers_[piece % buffers_.size()]; }
  void start(std::size_t piece, void* to, const void* from, std::size_t bytes, int kind) {
    memory_.check(cuda_.memcpy_async(to, from, bytes, kind, stream_), "cudaMemcpyAsync");
    memory_.check(cuda_.event_record(at(piece).event, stream_), "cudaEventRecord");
  }
  void release() noexcept {
    for (const Buffer& buffer : buffers_) {
      if (buffer.event != nullptr) cuda_.event_destroy(buffer.event);
      if (buffer.data != nullptr) cuda_.host_free(buffer.data);
    }
    if (stream_ != nullptr) cuda_.stream_destroy(stream_);
  }

  const CudaMemory& memory_;
  const CudaCalls& cuda_;
  CudaStream stream_ = nullptr;
  std::array<Buffer, 2> buffers_;
};

/// A lane for one copy. What it has started has ended before another gets it.
class CudaMemory::LaneUse {
 public:
  explicit LaneUse(CudaMemory& memory) : memory_(memory), lane_(memory.take_lane()) {}
  ~LaneUse() {
    if (!is_finished_) lane_->abandon();
    memory_.give_back(std::move(lane_));
  }
  LaneUse(const LaneUse&) = delete;
  LaneUse& operator=(const LaneUse&) = delete;

  Lane* operator->() { return lane_.get(); }
  void set_finished() { is_finished_ = true; }

 private:
  CudaMemory& memory_;
  std::unique_ptr<Lane> lane_;
  bool is_finished_ = false;
};

class CudaMemory::CopyOut final : public PendingCopy {
 public:
  CopyOut(CudaMemory& memory, const std::byte* from, std::size_t byte_count)
      : memory_(memory), lane_(memory), from_(from), byte_count_(byte_count) {
    start(0);
    start(1);
  }

  void finish(std::span<std::byte> into) override {
    const OnCudaDevice here(memory_.cuda_, memory_.device_);
    for (std::size_t piece = 0; piece * kCudaBufferBytes < byte_count_; ++piece) {
      const auto target = into.subspan(piece * kCudaBufferBytes, bytes_of(piece));
      lane_->wait_for(piece);
      std::ranges::copy(lane_->buffer(piece).first(target.size()), target.begin());
      start(piece + 2);
    }
    lane_.set_finished();
  }

 private:
  std::size_t bytes_of(std::size_t piece) const {
    return std::min(kCudaBufferBytes, byte_count_ - piece * kCudaBufferBytes);
  }
  void start(std::size_t piece) {
    if (piece * kCudaBufferBytes < byte_count_)
      lane_->start_out(piece, from_ + piece * kCudaBufferBytes, bytes_of(piece));
  }

  CudaMemory& memory_;
  LaneUse lane_;
  const std::byte* from_;
  std::size_t byte_count_;
};

CudaMemory::CudaMemory(const CudaCalls& cuda, int device) : cuda_(cuda), device_(device) {
  int count = 0;
  const CudaStatus status = cuda.get_device_count(&count);
  if (status != kCudaSuccess)
    fail(ErrorKind::unsupported, "CUDA has no device here: {}", cuda.get_error_string(status));
  if (device < 0 || device >= count)
    fail(ErrorKind::unsupported, "there is no CUDA device {}: {} found", device, count);
}

CudaMemory::~CudaMemory() = default;

std::unique_ptr<CudaMemory::Lane> CudaMemory::take_lane() {
  {
    const std::lock_guard lock(mutex_);
    if (!free_lanes_.empty()) {
      auto lane = std::move(free_lanes_.back());
      free_lanes_.pop_back();
      return lane;
    }
  }
  auto lane = std::make_unique<Lane>(*this);
  const std::lock_guard lock(mutex_);
  free_lanes_.reserve(++lanes_);  // for give_back()
  return lane;
}

void CudaMemory::give_back(std::unique_ptr<Lane> lane) noexcept {
  const std::lock_guard lock(mutex_);
  free_lanes_.push_back(std::move(lane));
}

void CudaMemory::copy_out(const std::byte* from, std::span<std::byte> into) {
  start_copy_out(from, into.size())->finish(into);
}

std::unique_ptr<PendingCopy> CudaMemory::start_copy_out(const std::byte* from, std::size_t byte_count) {
  const OnCudaDevice here(cuda_, device_);
  return std::make_unique<CopyOut>(*this, from, byte_count);
}

void CudaMemory::copy_in(std::span<const std::byte> bytes, std::byte* to) {
  const OnCudaDevice here(cuda_, device_);
  LaneUse lane(*this);
  for (std::size_t piece = 0; !bytes.empty(); ++piece) {
    const auto now = bytes.first(std::min(bytes.size(), kCudaBufferBytes));
    if (piece >= 2) lane->wait_for(piece);
    std::ranges::copy(now, lane->buffer(piece).begin());
    lane->start_in(piece, to, now.size());
    bytes = bytes.subspan(now.size());
    to += now.size();
  }
  lane->wait_for_all();
  lane.set_finished();
}

std::shared_ptr<DeviceMemory> cuda_memory(int device) {
  return std::make_shared<CudaMemory>(cuda_runtime(), device);
}

}  // namespace cairn
