// SPDX-License-Identifier: BSD-3-Clause
// IEEE 754 binary formats by their fields, and the conversion of one element in integers. Pure.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cairn/tensor.hpp"

namespace cairn {

template <class B, int exponent_bits, int mantissa_bits>
struct FloatFormat {
  using Bits = B;
  static constexpr int kMantissa = mantissa_bits, kBias = (1 << (exponent_bits - 1)) - 1,
                       kWidth = 8 * sizeof(B);
  static constexpr Bits kSign = Bits(Bits{1} << (kWidth - 1));
  static constexpr Bits kInfinity = Bits(((Bits{1} << exponent_bits) - 1) << mantissa_bits);
  static constexpr Bits kQuiet = Bits(Bits{1} << (mantissa_bits - 1));
};
using Float64 = FloatFormat<std::uint64_t, 11, 52>;
using Float32 = FloatFormat<std::uint32_t, 8, 23>;
using Float16 = FloatFormat<std::uint16_t, 5, 10>;
using BFloat16 = FloatFormat<std::uint16_t, 8, 7>;

/// Calls body(From{}, To{}) with the formats of a pair that can_cast.
template <class Body>
void with_formats(DType from, DType to, Body&& body) {
  const auto with_to = [&](auto source) {
    if (to == DType::float32)
      body(source, Float32{});
    else if (to == DType::float16)
      body(source, Float16{});
    else
      body(source, BFloat16{});
  };
  if (from == DType::float64)
    with_to(Float64{});
  else if (from == DType::float32)
    with_to(Float32{});
  else if (from == DType::float16)
    with_to(Float16{});
  else
    with_to(BFloat16{});
}

template <class Bits>
Bits shift_to_nearest_even(Bits value, int shift) {
  const Bits half = Bits{1} << (shift - 1);
  return (value + half - 1 + ((value >> shift) & 1)) >> shift;
}

/// To a format with fewer mantissa bits.
template <class From, class To>
typename To::Bits narrow(typename From::Bits x) {
  using Bits = typename From::Bits;
  constexpr int drop = From::kMantissa - To::kMantissa, rebias = From::kBias - To::kBias;
  constexpr Bits hidden = Bits{1} << From::kMantissa, infinity = To::kInfinity;
  const Bits sign = (x & From::kSign) >> (From::kWidth - To::kWidth), magnitude = x & Bits(~From::kSign);
  const int exponent = static_cast<int>(magnitude >> From::kMantissa);
  const Bits fraction = magnitude & (hidden - 1);

  Bits result;
  if (magnitude > From::kInfinity) {
    result = infinity | To::kQuiet | (fraction >> drop);
  } else if (exponent > rebias || rebias == 0) {
    const Bits rebased = magnitude - (Bits{rebias} << From::kMantissa);
    result = std::min(shift_to_nearest_even(rebased, drop), infinity);
  } else {
    // A subnormal: each step of the exponent below the smallest normal one costs a bit more.
    const int shift = std::min(drop + rebias + 1 - exponent, From::kWidth - 1);
    result = shift_to_nearest_even(fraction | hidden, shift);
  }
  return static_cast<typename To::Bits>(sign | result);
}

/// From a 16-bit format to float32: exact.
template <class From>
std::uint32_t widen(std::uint16_t x) {
  constexpr int up = Float32::kMantissa - From::kMantissa, rebias = Float32::kBias - From::kBias;
  const std::uint32_t sign = static_cast<std::uint32_t>(x & From::kSign) << 16;
  const std::uint32_t magnitude = x & std::uint32_t{0x7fff}, fields = magnitude << up;
  if (magnitude > From::kInfinity) return sign | Float32::kInfinity | Float32::kQuiet | fields;
  if (magnitude == From::kInfinity) return sign | Float32::kInfinity;
  if (rebias == 0) return sign | fields;
  if (magnitude >> From::kMantissa != 0)
    return sign | (fields + (std::uint32_t{rebias} << Float32::kMantissa));
  // A subnormal becomes normal; an integer times a power of two is exact in any rounding mode.
  return sign | std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
}

template <class From, class To>
typename To::Bits convert(typename From::Bits x) {
  if constexpr (From::kWidth != 16)
    return narrow<From, To>(x);
  else if constexpr (To::kWidth == 32)
    return widen<From>(x);
  else
    return narrow<Float32, To>(widen<From>(x));
}

/// Elements [first, end), of any alignment. Equal formats: the bits as they are.
template <class From, class To>
void convert_all(std::byte* target, const std::byte* source, std::size_t first, std::size_t end) {
  using In = typename From::Bits;
  using Out = typename To::Bits;
  if constexpr (std::is_same_v<From, To>) {
    std::memcpy(target + first * sizeof(In), source + first * sizeof(In), (end - first) * sizeof(In));
  } else {
    for (std::size_t i = first; i < end; ++i) {
      In in;
      std::memcpy(&in, source + i * sizeof in, sizeof in);
      const Out out = convert<From, To>(in);
      std::memcpy(target + i * sizeof out, &out, sizeof out);
    }
  }
}

}  // namespace cairn
