// SPDX-License-Identifier: BSD-3-Clause
// A state of float32 tensors of one size, sharded in rows over the ranks. Local.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cairn/communicator.hpp"
#include "cairn/live_state.hpp"

namespace cairn {

struct FloatState {
  static constexpr std::int64_t kColumns = 1024;

  /// `mebibytes` of all ranks together.
  FloatState(const Communicator& comm, std::uint64_t mebibytes, std::uint64_t tensors) : live(comm.rank()) {
    const auto ranks = static_cast<std::uint64_t>(comm.size());
    const std::uint64_t elements = (mebibytes << 20) / (4 * tensors * ranks);  // of one tensor on one rank
    const auto columns = std::min(kColumns, static_cast<std::int64_t>(elements));
    memory.resize(tensors);
    for (std::uint64_t i = 0; i < tensors; ++i) {
      memory[i].assign(elements, static_cast<float>(i));
      const std::int64_t rows = static_cast<std::int64_t>(elements) / columns * comm.size();
      const auto layout = TensorLayout::sharded({rows, columns}, 0, comm.size());
      const auto local = layout.local_shape(comm.rank());
      live.add_tensor("layers." + std::to_string(i) + ".weight", layout,
                      TensorView::contiguous(DType::float32, local, memory[i].data()));
    }
  }

  std::vector<std::vector<float>> memory;
  LiveState live;
};

}  // namespace cairn
