// SPDX-License-Identifier: BSD-3-Clause
// The runs of a view's memory: what one copy from or to a device moves. Local.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cairn/tensor.hpp"

namespace cairn {

/// Gives each run of the view's memory, in row-major order: where it begins, and its bytes.
template <class Visit>
void for_each_run(const TensorView& view, const Visit& visit) {
  std::size_t inner = view.sizes.size();
  std::int64_t run = 1;
  while (inner > 0 && (view.sizes[inner - 1] == 1 || view.strides[inner - 1] == run))
    run *= view.sizes[--inner];
  const auto element_bytes = static_cast<std::int64_t>(element_size(view.dtype));
  const auto go = [&](const auto& self, std::size_t d, std::byte* at) -> void {
    if (d == inner) return visit(at, static_cast<std::uint64_t>(run * element_bytes));
    for (std::int64_t i = 0; i < view.sizes[d]; ++i)
      self(self, d + 1, at + i * view.strides[d] * element_bytes);
  };
  go(go, 0, view.data);
}

}  // namespace cairn
