// SPDX-License-Identifier: BSD-3-Clause
// The codes of element types in headers. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "cairn/tensor.hpp"

namespace cairn::safetensors {

/// nullopt: there is none (complex128, complex32, bits of torch).
std::optional<std::string_view> code_of(DType dtype);
/// nullopt: not known, or without a dtype of torch (F6_E2M3, F6_E3M2).
std::optional<DType> dtype_of(std::string_view code);

/// Values in the last dimension of a header for one element of torch: 2 for F4, whose element is a byte of
/// two values, else 1.
inline std::int64_t values_per_element(DType dtype) { return dtype == DType::float4_e2m1fn_x2 ? 2 : 1; }

/// Tensors lie in a file by this, descending, then by name: as the safetensors library puts them, so that
/// each begins at a multiple of its element size. Of dtypes with a code.
int file_order(DType dtype);

}  // namespace cairn::safetensors
