// SPDX-License-Identifier: BSD-3-Clause
// Elements between buffers and views, whatever their strides and memory. Local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cairn/tensor.hpp"

namespace cairn {

/// The view's elements, row-major, as they are: view.byte_count() bytes of `into` or `from`. Memory of a
/// device is moved in runs as long as the view's strides make them.
void copy_out(const TensorView& view, std::byte* into);
void copy_in(const std::byte* from, const TensorView& view);

/// Puts elements into views of other strides, types or memory. One object per thread; its buffers take what
/// the largest view takes.
class ViewWriter {
 public:
  /// Element e of `view` comes from `source` + sum of e[d] * strides[d] elements of type `from`. Types differ
  /// only where can_cast() says that they may.
  void put(const TensorView& view, const std::byte* source, std::span<const std::int64_t> strides,
           DType from);

 private:
  std::vector<std::byte> packed_, cast_;
};

}  // namespace cairn
