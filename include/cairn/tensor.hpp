// SPDX-License-Identifier: BSD-3-Clause
// Row: tensor. Element types of tensors, as PyTorch has them. Local, pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace cairn {

/// Element types of torch 2.13 that have a dense byte layout. Sub-byte types count in torch's packed elements
/// (float4_e2m1fn_x2: one element is one byte with two values).
enum class DType : std::uint8_t {
  boolean,
  uint8,
  int8,
  int16,
  int32,
  int64,
  float16,
  bfloat16,
  float32,
  float64,
  complex64,
  complex128,
  uint16,
  uint32,
  uint64,
  complex32,
  float8_e4m3fn,
  float8_e5m2,
  float8_e4m3fnuz,
  float8_e5m2fnuz,
  float8_e8m0fnu,
  float4_e2m1fn_x2,
  bits1x8,
  bits2x4,
  bits4x2,
  bits8,
  bits16,
};

struct DTypeInfo {
  std::string_view name;           ///< PyTorch's name without "torch.", e.g. "bfloat16", "bool"
  std::uint8_t element_size;       ///< bytes per element
  std::string_view storage_class;  ///< legacy class in module torch, e.g. "FloatStorage"; empty: none exists
};

const DTypeInfo& info(DType dtype);
inline std::uint64_t element_size(DType dtype) { return info(dtype).element_size; }

/// By PyTorch's name without "torch."; nullopt for names that are no dense dtype here (qint8, int4, …).
std::optional<DType> dtype_from_name(std::string_view name);
/// By legacy storage class ("FloatStorage"); nullopt when unknown.
std::optional<DType> dtype_from_storage_class(std::string_view storage_class);

}  // namespace cairn
