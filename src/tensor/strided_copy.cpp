// SPDX-License-Identifier: BSD-3-Clause
#include "tensor/strided_copy.hpp"

#include <array>
#include <cassert>
#include <cstring>

namespace cairn {
namespace {

using Wide = std::array<std::uint64_t, 2>;

template <class Element>
void copy_row(std::byte* target, const std::byte* source, const CopyDim& dim) {
  if (dim.source_stride == 1 && dim.target_stride == 1) {
    std::memcpy(target, source, static_cast<std::size_t>(dim.size) * sizeof(Element));
    return;
  }
  const std::int64_t from = dim.source_stride * static_cast<std::int64_t>(sizeof(Element));
  const std::int64_t to = dim.target_stride * static_cast<std::int64_t>(sizeof(Element));
  for (std::int64_t i = 0; i < dim.size; ++i)
    std::memcpy(target + i * to, source + i * from, sizeof(Element));
}

template <class Element>
void copy_box(std::byte* target, const std::byte* source, std::span<const CopyDim> dims) {
  if (dims.empty()) {
    std::memcpy(target, source, sizeof(Element));
    return;
  }
  const CopyDim& dim = dims[0];
  if (dims.size() == 1) return copy_row<Element>(target, source, dim);
  const std::int64_t from = dim.source_stride * static_cast<std::int64_t>(sizeof(Element));
  const std::int64_t to = dim.target_stride * static_cast<std::int64_t>(sizeof(Element));
  for (std::int64_t i = 0; i < dim.size; ++i)
    copy_box<Element>(target + i * to, source + i * from, dims.subspan(1));
}

}  // namespace

void strided_copy(std::byte* target, const std::byte* source, std::span<const CopyDim> dims,
                  std::uint64_t element_bytes) {
  switch (element_bytes) {
    case 1:
      return copy_box<std::uint8_t>(target, source, dims);
    case 2:
      return copy_box<std::uint16_t>(target, source, dims);
    case 4:
      return copy_box<std::uint32_t>(target, source, dims);
    case 8:
      return copy_box<std::uint64_t>(target, source, dims);
    case 16:
      return copy_box<Wide>(target, source, dims);
    default:
      assert(false);
  }
}

}  // namespace cairn
