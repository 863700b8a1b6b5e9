// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <iterator>

#include "cairn/tensor.hpp"

namespace cairn {
namespace {

// In the order of DType.
constexpr std::array kTable = std::to_array<DTypeInfo>({
    {"bool", 1, "BoolStorage"},
    {"uint8", 1, "ByteStorage"},
    {"int8", 1, "CharStorage"},
    {"int16", 2, "ShortStorage"},
    {"int32", 4, "IntStorage"},
    {"int64", 8, "LongStorage"},
    {"float16", 2, "HalfStorage"},
    {"bfloat16", 2, "BFloat16Storage"},
    {"float32", 4, "FloatStorage"},
    {"float64", 8, "DoubleStorage"},
    {"complex64", 8, "ComplexFloatStorage"},
    {"complex128", 16, "ComplexDoubleStorage"},
    {"uint16", 2, ""},
    {"uint32", 4, ""},
    {"uint64", 8, ""},
    {"complex32", 4, ""},
    {"float8_e4m3fn", 1, ""},
    {"float8_e5m2", 1, ""},
    {"float8_e4m3fnuz", 1, ""},
    {"float8_e5m2fnuz", 1, ""},
    {"float8_e8m0fnu", 1, ""},
    {"float4_e2m1fn_x2", 1, ""},
    {"bits1x8", 1, ""},
    {"bits2x4", 1, ""},
    {"bits4x2", 1, ""},
    {"bits8", 1, ""},
    {"bits16", 2, ""},
});
static_assert(kTable.size() == static_cast<std::size_t>(DType::bits16) + 1);

template <class Member>
std::optional<DType> find(std::string_view key, Member member) {
  if (key.empty()) return std::nullopt;
  const auto at = std::ranges::find(kTable, key, member);
  if (at == kTable.end()) return std::nullopt;
  return static_cast<DType>(std::distance(kTable.begin(), at));
}

}  // namespace

const DTypeInfo& info(DType dtype) { return kTable[static_cast<std::size_t>(dtype)]; }

std::optional<DType> dtype_from_name(std::string_view name) { return find(name, &DTypeInfo::name); }

std::optional<DType> dtype_from_storage_class(std::string_view storage_class) {
  return find(storage_class, &DTypeInfo::storage_class);
}

}  // namespace cairn
