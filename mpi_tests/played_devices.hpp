// SPDX-License-Identifier: BSD-3-Clause
// Devices of the ranks and the link between them, played on the processors; and live states that lie there.
#pragma once

#include <cstring>
#include <memory>
#include <string>

#include "device/cuda_memory.hpp"
#include "device/fake_cuda.hpp"
#include "fake_nccl.hpp"
#include "iota_state.hpp"
#include "mpi/nccl_link.hpp"
#include "world.hpp"

namespace cairn {

/// What a rank needs for a link that is played. Collective.
struct PlayedDevices {
  explicit PlayedDevices(std::size_t bytes = 4 << 20) : cuda(1, bytes) {}

  std::unique_ptr<DeviceLink> link() { return make_nccl_link(world(), nccl.calls(), memory); }

  FakeCuda cuda;
  FakeNccl nccl{world(), cuda};
  std::shared_ptr<CudaMemory> memory = std::make_shared<CudaMemory>(cuda.calls(), 0);
};

/// An IotaState of a rank on its device: each tensor is one box at most, without gaps.
class DeviceState {
 public:
  DeviceState(PlayedDevices& devices, int rank) : live(rank), devices_(devices), host_(rank) {}

  void add(const std::string& name, DType dtype, const TensorLayout& layout, std::uint64_t seed,
           bool filled = true) {
    host_.add(name, dtype, layout, seed, filled);
    TensorView view = TensorView::contiguous(dtype, layout.local_shape(live.description().rank()), nullptr);
    view.data = devices_.cuda.allocate(view.byte_count());
    view.device = devices_.memory.get();
    live.add_tensor(name, layout, view);
    if (filled && view.byte_count() > 0)
      std::memcpy(devices_.cuda.shadow_of(view.data), on_host(live.size() - 1).data, view.byte_count());
  }

  /// The bytes of an entry that are not what they should be.
  std::uint64_t wrong_bytes(std::size_t entry, std::uint64_t seed) {
    if (live.description().box_count(entry) > 0) {
      const TensorView& view = live.view(entry, 0);
      std::memcpy(on_host(entry).data, devices_.cuda.shadow_of(view.data), view.byte_count());
    }
    return host_.wrong_bytes(entry, seed);
  }

  /// The same tensors in the processor's memory.
  const LiveState& on_processor() const { return host_.live; }

  LiveState live;

 private:
  const TensorView& on_host(std::size_t entry) const { return host_.live.view(entry, 0); }

  PlayedDevices& devices_;
  IotaState host_;
};

}  // namespace cairn
