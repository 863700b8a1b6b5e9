// SPDX-License-Identifier: BSD-3-Clause
// Live states on a device, real or played, of which every byte says where it belongs.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "iota_state.hpp"

namespace cairn {

/// A device as a test fills it and looks at it.
class DevicePlace {
 public:
  virtual ~DevicePlace() = default;
  virtual DeviceMemory& device_memory() = 0;
  virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void put(std::span<const std::byte> bytes, std::byte* at) = 0;
  virtual void get(const std::byte* at, std::span<std::byte> into) = 0;
};

/// An IotaState of a rank on its device: each tensor is one box at most, without gaps.
class DeviceState {
 public:
  DeviceState(DevicePlace& place, int rank) : live(rank), place_(place), host_(rank) {}

  void add(const std::string& name, DType dtype, const TensorLayout& layout, std::uint64_t seed,
           bool filled = true) {
    host_.add(name, dtype, layout, seed, filled);
    TensorView view = TensorView::contiguous(dtype, layout.local_shape(live.description().rank()), nullptr);
    view.data = place_.allocate(view.byte_count());
    view.device = &place_.device_memory();
    live.add_tensor(name, layout, view);
    const std::size_t entry = live.size() - 1;
    if (filled && has_bytes(entry)) place_.put(on_host(entry), view.data);
  }

  /// The bytes of an entry that are not what they should be.
  std::uint64_t wrong_bytes(std::size_t entry, std::uint64_t seed) {
    if (has_bytes(entry)) place_.get(live.view(entry, 0).data, on_host(entry));
    return host_.wrong_bytes(entry, seed);
  }
  /// From now on every byte of the device is 0.
  void clear() {
    for (std::size_t entry = 0; entry < live.size(); ++entry) {
      if (!has_bytes(entry)) continue;
      const TensorView& view = live.view(entry, 0);
      place_.put(std::vector<std::byte>(view.byte_count()), view.data);
    }
  }

  /// The same tensors in the processor's memory.
  const LiveState& on_processor() const { return host_.live; }

  LiveState live;

 private:
  bool has_bytes(std::size_t entry) const {
    return live.description().box_count(entry) > 0 && live.view(entry, 0).byte_count() > 0;
  }
  std::span<std::byte> on_host(std::size_t entry) const {
    const TensorView& view = host_.live.view(entry, 0);
    return {view.data, view.byte_count()};
  }

  DevicePlace& place_;
  IotaState host_;
};

}  // namespace cairn
