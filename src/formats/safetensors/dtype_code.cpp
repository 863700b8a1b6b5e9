// SPDX-License-Identifier: BSD-3-Clause
#include "formats/safetensors/dtype_code.hpp"

#include <algorithm>
#include <array>

namespace cairn::safetensors {
namespace {

struct Row {
  DType dtype;
  std::string_view code;
};

// In the order of the library's enumeration.
constexpr std::array kTable = std::to_array<Row>({
    {DType::boolean, "BOOL"},
    {DType::float4_e2m1fn_x2, "F4"},
    {DType::uint8, "U8"},
    {DType::int8, "I8"},
    {DType::float8_e5m2, "F8_E5M2"},
    {DType::float8_e4m3fn, "F8_E4M3"},
    {DType::float8_e8m0fnu, "F8_E8M0"},
    {DType::float8_e4m3fnuz, "F8_E4M3FNUZ"},
    {DType::float8_e5m2fnuz, "F8_E5M2FNUZ"},
    {DType::int16, "I16"},
    {DType::uint16, "U16"},
    {DType::float16, "F16"},
    {DType::bfloat16, "BF16"},
    {DType::int32, "I32"},
    {DType::uint32, "U32"},
    {DType::float32, "F32"},
    {DType::complex64, "C64"},
    {DType::float64, "F64"},
    {DType::int64, "I64"},
    {DType::uint64, "U64"},
});

}  // namespace

std::optional<std::string_view> code_of(DType dtype) {
  const auto row = std::ranges::find(kTable, dtype, &Row::dtype);
  if (row == kTable.end()) return std::nullopt;
  return row->code;
}

std::optional<DType> dtype_of(std::string_view code) {
  const auto row = std::ranges::find(kTable, code, &Row::code);
  if (row == kTable.end()) return std::nullopt;
  return row->dtype;
}

int file_order(DType dtype) {
  return static_cast<int>(std::ranges::find(kTable, dtype, &Row::dtype) - kTable.begin());
}

}  // namespace cairn::safetensors
