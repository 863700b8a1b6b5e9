// SPDX-License-Identifier: BSD-3-Clause
#include "cairn/box.hpp"
#include "cairn/tensor.hpp"
#include "tensor/strided_copy.hpp"

namespace cairn {

TensorView TensorView::contiguous(DType dtype, std::vector<std::int64_t> sizes, void* data) {
  TensorView view{dtype, std::move(sizes), {}, static_cast<std::byte*>(data), nullptr};
  view.strides = contiguous_strides(view.sizes);
  return view;
}

bool TensorView::is_contiguous() const { return is_row_major(sizes, strides); }

std::uint64_t TensorView::byte_count() const {
  return static_cast<std::uint64_t>(element_count(sizes)) * element_size(dtype);
}

TensorView TensorView::part(std::span<const std::int64_t> offsets,
                            std::span<const std::int64_t> part_sizes) const {
  TensorView out{dtype, {part_sizes.begin(), part_sizes.end()}, strides, data, device};
  std::int64_t elements = 0;
  for (std::size_t d = 0; d < offsets.size(); ++d) elements += offsets[d] * strides[d];
  if (data != nullptr) out.data += elements * static_cast<std::int64_t>(element_size(dtype));
  return out;
}

}  // namespace cairn
