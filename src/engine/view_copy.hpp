// SPDX-License-Identifier: BSD-3-Clause
// Elements of tensors in memory as row-major bytes. Local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cairn/tensor.hpp"
#include "tensor/strided_copy.hpp"

namespace cairn {

/// Copies the elements from `first` on, in row-major order, as many as `into` has room for. Throws what
/// DeviceMemory::copy_out throws.
void copy_elements(const TensorView& view, std::int64_t first, std::span<std::byte> into,
                   CopyUse use = CopyUse::soon);

}  // namespace cairn
