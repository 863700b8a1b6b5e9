// SPDX-License-Identifier: BSD-3-Clause
#include "engine/view_copy.hpp"

#include <vector>

#include "cairn/box.hpp"
#include "engine/view_runs.hpp"
#include "plan/linear.hpp"
#include "tensor/strided_copy.hpp"

namespace cairn {
namespace {

void copy_strided(const TensorView& view, std::int64_t first, std::span<std::byte> into, CopyUse use) {
  const std::uint64_t size = element_size(view.dtype);
  const auto count = static_cast<std::int64_t>(into.size() / size);
  std::byte* target = into.data();
  std::vector<CopyDim> dims(view.sizes.size());
  for_each_box(view.sizes, first, first + count, [&](BoxView box) {
    std::int64_t source_at = 0, target_stride = 1;
    for (std::size_t d = dims.size(); d-- > 0;) {
      dims[d] = {box.sizes[d], view.strides[d], target_stride};
      target_stride *= box.sizes[d];
      source_at += box.offsets[d] * view.strides[d];
    }
    strided_copy(target, view.data + source_at * static_cast<std::int64_t>(size), dims, size, use);
    target += target_stride * static_cast<std::int64_t>(size);
  });
}

// A part of a tensor without gaps may have some.
void copy_runs(const TensorView& view, std::int64_t first, std::span<std::byte> into) {
  const auto count = static_cast<std::int64_t>(into.size() / element_size(view.dtype));
  std::byte* target = into.data();
  for_each_box(view.sizes, first, first + count, [&](BoxView box) {
    for_each_run(view.part(box.offsets, box.sizes), [&](const std::byte* run, std::uint64_t bytes) {
      view.device->copy_out(run, {target, bytes});
      target += bytes;
    });
  });
}

}  // namespace

void copy_elements(const TensorView& view, std::int64_t first, std::span<std::byte> into, CopyUse use) {
  if (into.empty()) return;
  if (!view.is_contiguous())
    return view.device != nullptr ? copy_runs(view, first, into) : copy_strided(view, first, into, use);
  const std::byte* from = view.data + first * static_cast<std::int64_t>(element_size(view.dtype));
  if (view.device != nullptr) return view.device->copy_out(from, into);
  const CopyDim run{static_cast<std::int64_t>(into.size()), 1, 1};
  strided_copy(into.data(), from, std::span(&run, 1), 1, use);
}

}  // namespace cairn
