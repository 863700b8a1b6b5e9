// SPDX-License-Identifier: BSD-3-Clause
// Row: tensor. Element types of tensors, as PyTorch has them. Local, pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

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

/// Bytes on their way out of a device's memory, which outlives this and stays as it is meanwhile.
class PendingCopy {
 public:
  virtual ~PendingCopy() = default;
  /// Once, with as many bytes as the copy has. Returns when they have arrived; throws io when they cannot.
  virtual void finish(std::span<std::byte> into) = 0;
};

/// Memory that the processor cannot address, such as a GPU's. Addresses are the device's own. Thread-safe.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  /// Both return when the bytes have arrived, and throw io when they cannot.
  virtual void copy_out(const std::byte* from, std::span<std::byte> into) = 0;
  virtual void copy_in(std::span<const std::byte> bytes, std::byte* to) = 0;
  /// A copy_out() that goes on while its thread does something else. By default all happens in finish().
  virtual std::unique_ptr<PendingCopy> start_copy_out(const std::byte* from, std::size_t byte_count);
};

/// Elements that somebody else owns: element e lies at data + (sum of e[d] * strides[d]) * element size.
/// Strides are in elements and may be negative; 0 only where nothing is written.
struct TensorView {
  DType dtype = DType::float32;
  std::vector<std::int64_t> sizes, strides;  ///< of one length
  std::byte* data = nullptr;                 ///< may be null where a size is 0
  DeviceMemory* device = nullptr;            ///< null: the processor's memory. Outlives the view

  /// Row-major, without gaps.
  static TensorView contiguous(DType dtype, std::vector<std::int64_t> sizes, void* data);

  bool is_contiguous() const;
  std::uint64_t byte_count() const;
  /// The part at `offsets` with these sizes, which lies inside.
  TensorView part(std::span<const std::int64_t> offsets, std::span<const std::int64_t> part_sizes) const;
};

}  // namespace cairn
