// SPDX-License-Identifier: BSD-3-Clause
// Devices of the ranks and the link between them, played on the processors.
#pragma once

#include <algorithm>
#include <memory>

#include "device/cuda_memory.hpp"
#include "device/fake_cuda.hpp"
#include "device_state.hpp"
#include "fake_nccl.hpp"
#include "mpi/nccl_link.hpp"
#include "world.hpp"

namespace cairn {

/// What a rank needs for a link that is played. Making and destroying it is collective.
struct PlayedDevices final : DevicePlace {
  explicit PlayedDevices(std::size_t bytes = 4 << 20) : cuda(1, bytes) {}

  std::unique_ptr<DeviceLink> link() { return make_nccl_link(world(), nccl.calls(), memory); }

  DeviceMemory& device_memory() override { return *memory; }
  std::byte* allocate(std::size_t bytes) override { return cuda.allocate(bytes); }
  void put(std::span<const std::byte> bytes, std::byte* at) override {
    std::ranges::copy(bytes, cuda.shadow_of(at));
  }
  void get(const std::byte* at, std::span<std::byte> into) override {
    std::copy_n(cuda.shadow_of(at), into.size(), into.begin());
  }

  FakeCuda cuda;
  FakeNccl nccl{world(), cuda};
  std::shared_ptr<CudaMemory> memory = std::make_shared<CudaMemory>(cuda.calls(), 0);
};

}  // namespace cairn
