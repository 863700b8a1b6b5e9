// SPDX-License-Identifier: BSD-3-Clause
// Live states of which every byte says where it belongs: byte b of a tensor, in row-major order of the whole,
// is a function of b and of the tensor's number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "cairn/box.hpp"
#include "cairn/live_state.hpp"

namespace cairn {

inline std::byte iota_byte(std::uint64_t at, std::uint64_t seed) {
  return static_cast<std::byte>((at * 31 + (at >> 8) * 17 + seed * 7) & 0xff);
}

/// How the elements of a rank's local tensor lie in memory.
enum class Order { row_major, reversed_dims };

class IotaState {
 public:
  explicit IotaState(int rank) : live(rank) {}

  /// The rank's part of tensor number `seed`: its bytes, or zeros.
  void add(const std::string& name, DType dtype, const TensorLayout& layout, std::uint64_t seed,
           bool filled = true, Order order = Order::row_major) {
    const int rank = live.description().rank();
    TensorView view{dtype, layout.local_shape(rank), {}, nullptr, nullptr};
    view.strides = strides_of(view.sizes, order);
    auto& memory = memory_.emplace_back(view.byte_count());
    view.data = memory.data();
    live.add_tensor(name, layout, view);
    if (filled) for_each_byte(live.size() - 1, seed, [](std::byte& here, std::byte value) { here = value; });
  }

  /// The bytes of an entry that are not what they should be.
  std::uint64_t wrong_bytes(std::size_t entry, std::uint64_t seed) {
    std::uint64_t wrong = 0;
    for_each_byte(entry, seed, [&](std::byte& here, std::byte value) { wrong += here != value; });
    return wrong;
  }

  LiveState live;

 private:
  static std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& sizes, Order order) {
    if (order == Order::row_major) return contiguous_strides(sizes);
    std::vector<std::int64_t> strides;
    std::int64_t stride = 1;
    for (const std::int64_t size : sizes) {
      strides.push_back(stride);
      stride *= size;
    }
    return strides;
  }

  template <class Visit>
  void for_each_byte(std::size_t entry, std::uint64_t seed, Visit&& visit) {
    const RankState& known = live.description();
    const auto shape = known.shape(entry);
    const auto global = contiguous_strides(std::vector<std::int64_t>(shape.begin(), shape.end()));
    const std::uint64_t size = element_size(known.dtype(entry));
    const std::byte mask{known.dtype(entry) == DType::boolean ? std::uint8_t{1} : std::uint8_t{255}};
    for (std::size_t box = 0; box < known.box_count(entry); ++box) {
      const TensorView& view = live.view(entry, box);
      const BoxView where = known.box(entry, box);
      std::vector<std::int64_t> index(shape.size(), 0);
      for (std::int64_t left = element_count(view.sizes); left > 0; --left) {
        std::int64_t local_at = 0, global_at = 0;
        for (std::size_t d = 0; d < index.size(); ++d) {
          local_at += index[d] * view.strides[d];
          global_at += (where.offsets[d] + index[d]) * global[d];
        }
        for (std::uint64_t b = 0; b < size; ++b) {
          const std::uint64_t at = static_cast<std::uint64_t>(global_at) * size + b;
          visit(view.data[local_at * static_cast<std::int64_t>(size) + static_cast<std::int64_t>(b)],
                iota_byte(at, seed) & mask);
        }
        for (std::size_t d = index.size(); d-- > 0;) {
          if (++index[d] < view.sizes[d]) break;
          index[d] = 0;
        }
      }
    }
  }

  std::deque<std::vector<std::byte>> memory_;
};

}  // namespace cairn
