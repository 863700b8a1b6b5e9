// SPDX-License-Identifier: BSD-3-Clause
// Casts between floating-point types on bytes in memory. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "cairn/tensor.hpp"

namespace cairn {

/// From float64, float32, float16, bfloat16 to float32, float16, bfloat16; equal types are a copy.
bool can_cast(DType from, DType to);

/// Of types that can_cast: whether some finite value of `from` is none of `to`.
bool may_round(DType from, DType to);

/// float32, float16, bfloat16.
bool is_cast_target(DType dtype);

/// Throws invalid_argument when `to` is no type to cast to, unsupported when `from` is none to cast from.
void require_cast(DType from, DType to);

/// Casts source.size() / element_size(from) elements; the target is exactly as many of `to` long, else
/// invalid_argument. Neither needs any alignment; they don't overlap.
///
/// One rounding, from the source's value to the nearest of the target, ties to even; beyond the largest
/// finite value by half a step and more: infinity; subnormals are kept and rounded. A NaN stays a NaN with
/// its sign, quiet, with the leading bits of its payload. Equal types: all bits as they are. The result
/// depends neither on the processor nor on its rounding and flushing modes. Throws as require_cast does.
void cast(std::span<std::byte> target, DType to, std::span<const std::byte> source, DType from);

/// The same code compiled for several processors. cast() takes the last one that this machine runs.
struct CastCode {
  std::string_view processor;  ///< "any", "avx2"
  void (*cast)(std::byte* target, DType to, const std::byte* source, DType from, std::size_t elements);
};
/// Those that this machine runs; a pair must be one that can_cast.
std::vector<CastCode> cast_codes();

}  // namespace cairn
