// SPDX-License-Identifier: BSD-3-Clause
// The loops behind cast(): once in plain C++, once for AVX2 with F16C; with the same results. Pure.
#pragma once

#include <cstddef>

#include "cairn/tensor.hpp"

namespace cairn {

void cast_plain(std::byte* target, DType to, const std::byte* source, DType from, std::size_t elements);

#ifdef __x86_64__
bool has_avx2_and_f16c();
void cast_avx2(std::byte* target, DType to, const std::byte* source, DType from, std::size_t elements);
#endif

}  // namespace cairn
