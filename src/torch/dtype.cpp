// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <utility>

#include "base/fail.hpp"
#include "cairn/torch.hpp"

namespace cairn {
namespace {

using at::ScalarType;

constexpr std::array<std::pair<DType, ScalarType>, 27> kTypes{{
    {DType::boolean, ScalarType::Bool},
    {DType::uint8, ScalarType::Byte},
    {DType::int8, ScalarType::Char},
    {DType::int16, ScalarType::Short},
    {DType::int32, ScalarType::Int},
    {DType::int64, ScalarType::Long},
    {DType::float16, ScalarType::Half},
    {DType::bfloat16, ScalarType::BFloat16},
    {DType::float32, ScalarType::Float},
    {DType::float64, ScalarType::Double},
    {DType::complex64, ScalarType::ComplexFloat},
    {DType::complex128, ScalarType::ComplexDouble},
    {DType::uint16, ScalarType::UInt16},
    {DType::uint32, ScalarType::UInt32},
    {DType::uint64, ScalarType::UInt64},
    {DType::complex32, ScalarType::ComplexHalf},
    {DType::float8_e4m3fn, ScalarType::Float8_e4m3fn},
    {DType::float8_e5m2, ScalarType::Float8_e5m2},
    {DType::float8_e4m3fnuz, ScalarType::Float8_e4m3fnuz},
    {DType::float8_e5m2fnuz, ScalarType::Float8_e5m2fnuz},
    {DType::float8_e8m0fnu, ScalarType::Float8_e8m0fnu},
    {DType::float4_e2m1fn_x2, ScalarType::Float4_e2m1fn_x2},
    {DType::bits1x8, ScalarType::Bits1x8},
    {DType::bits2x4, ScalarType::Bits2x4},
    {DType::bits4x2, ScalarType::Bits4x2},
    {DType::bits8, ScalarType::Bits8},
    {DType::bits16, ScalarType::Bits16},
}};

}  // namespace

DType dtype_of(ScalarType type) {
  const auto* found = std::ranges::find(kTypes, type, &std::pair<DType, ScalarType>::second);
  if (found == kTypes.end()) fail(ErrorKind::unsupported, "libtorch's type {}", c10::toString(type));
  return found->first;
}

ScalarType scalar_type_of(DType dtype) {
  return std::ranges::find(kTypes, dtype, &std::pair<DType, ScalarType>::first)->second;
}

}  // namespace cairn
