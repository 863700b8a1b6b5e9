// SPDX-License-Identifier: BSD-3-Clause
// 64-bit arithmetic that throws corrupt instead of wrapping: sizes come from files.
#pragma once

#include <concepts>
#include <string_view>

#include "base/fail.hpp"

namespace cairn {

template <std::integral T>
T checked_add(T a, T b, std::string_view what) {
  T result;
  if (__builtin_add_overflow(a, b, &result)) fail_corrupt("{} overflows: {} + {}", what, a, b);
  return result;
}

template <std::integral T>
T checked_mul(T a, T b, std::string_view what) {
  T result;
  if (__builtin_mul_overflow(a, b, &result)) fail_corrupt("{} overflows: {} x {}", what, a, b);
  return result;
}

}  // namespace cairn
