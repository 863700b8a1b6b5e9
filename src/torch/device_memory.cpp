// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>

#include "cairn/torch.hpp"
#include "torch/guarded.hpp"

namespace cairn {
namespace {

/// Bytes at an address of the device, or of the processor.
at::Tensor bytes_at(const std::byte* data, std::size_t size, at::Device device) {
  return at::for_blob(const_cast<std::byte*>(data), {static_cast<std::int64_t>(size)})
      .options(at::TensorOptions(at::kByte).device(device))
      .target_device(device)
      .make_tensor();
}

class TorchDeviceMemory final : public DeviceMemory {
 public:
  explicit TorchDeviceMemory(at::Device device) : device_(device) {}

  void copy_out(const std::byte* from, std::span<std::byte> into) override {
    copy(from, device_, into.data(), at::kCPU, into.size());
  }
  void copy_in(std::span<const std::byte> bytes, std::byte* to) override {
    copy(bytes.data(), at::kCPU, to, device_, bytes.size());
  }

 private:
  void copy(const std::byte* from, at::Device from_device, std::byte* to, at::Device to_device,
            std::size_t size) const {
    const at::NoGradGuard no_grad;
    guarded(device_.str(), [&] {
      at::Tensor target = bytes_at(to, size, to_device);
      target.copy_(bytes_at(from, size, from_device), /*non_blocking=*/false);
    });
  }

  at::Device device_;
};

}  // namespace

std::shared_ptr<DeviceMemory> device_memory(at::Device device) {
  return std::make_shared<TorchDeviceMemory>(device);
}

}  // namespace cairn
