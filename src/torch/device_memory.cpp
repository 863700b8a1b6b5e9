// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "cairn/device.hpp"
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

/// Null where CUDA's runtime is not to be had, as where libtorch has AMD's in its place.
std::shared_ptr<DeviceMemory> pinned_copies(at::Device device) {
  try {
    return cuda_memory(device.index());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) throw;
    return nullptr;
  }
}

at::Device with_index(at::Device device) {
  if (device.has_index()) return device;
  return guarded(device.str(), [&] { return c10::impl::VirtualGuardImpl(device.type()).getDevice(); });
}

}  // namespace

std::shared_ptr<DeviceMemory> device_memory(at::Device device) {
  if (device.is_cuda()) {
    if (auto pinned = pinned_copies(with_index(device))) return pinned;
  }
  return std::make_shared<TorchDeviceMemory>(device);
}

}  // namespace cairn
