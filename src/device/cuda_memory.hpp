// SPDX-License-Identifier: BSD-3-Clause
// Memory of a CUDA device, copied through pinned memory. Local.
//
// A lane is a stream and two pinned buffers: while the device fills or empties one, the processor empties or
// fills the other. A copy has a lane to itself, so that as many lanes come into being as threads copy at
// once; they are kept. What a program has queued on streams of its own is not waited for.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "cairn/tensor.hpp"
#include "device/cuda_calls.hpp"

namespace cairn {

/// Of one pinned buffer: two of them take what the engine copies at once.
inline constexpr std::size_t kCudaBufferBytes = 512 << 10;

class CudaMemory final : public DeviceMemory {
 public:
  /// Throws unsupported where the driver or the device is missing. `cuda` outlives the object.
  CudaMemory(const CudaCalls& cuda, int device);
  ~CudaMemory() override;
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  const CudaCalls& calls() const { return cuda_; }
  int device() const { return device_; }

  void copy_out(const std::byte* from, std::span<std::byte> into) override;
  void copy_in(std::span<const std::byte> bytes, std::byte* to) override;
  /// Two buffers full at most are on their way before finish().
  std::unique_ptr<PendingCopy> start_copy_out(const std::byte* from, std::size_t byte_count) override;

 private:
  class Lane;
  class LaneUse;
  class CopyOut;
  std::unique_ptr<Lane> take_lane();
  void give_back(std::unique_ptr<Lane> lane) noexcept;
  void check(CudaStatus status, const char* call) const { check_cuda(cuda_, status, call, device_); }

  const CudaCalls& cuda_;
  const int device_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Lane>> free_lanes_;  // guarded; has room for all
  std::size_t lanes_ = 0;                          // guarded
};

}  // namespace cairn
