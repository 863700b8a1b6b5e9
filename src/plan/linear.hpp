// SPDX-License-Identifier: BSD-3-Clause
// Row-major runs of a tensor as boxes. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "cairn/box.hpp"

namespace cairn {

/// Cuts the elements [begin, end) of a row-major tensor into boxes, in order; at most 2 * ndim - 1 of them.
/// `shape` has no dimension of size 0; 0 <= begin <= end <= element_count(shape). The box is valid during the
/// call only.
void for_each_box(std::span<const std::int64_t> shape, std::int64_t begin, std::int64_t end,
                  const std::function<void(BoxView)>& visit);

}  // namespace cairn
