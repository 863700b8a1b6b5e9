// SPDX-License-Identifier: BSD-3-Clause
#include "engine/view_writer.hpp"

#include "cairn/box.hpp"
#include "engine/view_copy.hpp"
#include "engine/view_runs.hpp"
#include "tensor/cast.hpp"
#include "tensor/strided_copy.hpp"

namespace cairn {
namespace {

std::vector<CopyDim> dims(std::span<const std::int64_t> sizes, std::span<const std::int64_t> source_strides,
                          std::span<const std::int64_t> target_strides) {
  std::vector<CopyDim> out;
  out.reserve(sizes.size());
  for (std::size_t d = 0; d < sizes.size(); ++d)
    out.push_back({sizes[d], source_strides[d], target_strides[d]});
  return out;
}

}  // namespace

void copy_out(const TensorView& view, std::byte* into) {
  if (view.device == nullptr) return copy_elements(view, 0, {into, view.byte_count()});
  for_each_run(view, [&](const std::byte* run, std::uint64_t bytes) {
    view.device->copy_out(run, {into, bytes});
    into += bytes;
  });
}

void copy_in(const std::byte* from, const TensorView& view) {
  if (view.device == nullptr) {
    return strided_copy(view.data, from, dims(view.sizes, contiguous_strides(view.sizes), view.strides),
                        element_size(view.dtype));
  }
  for_each_run(view, [&](std::byte* run, std::uint64_t bytes) {
    view.device->copy_in({from, bytes}, run);
    from += bytes;
  });
}

void ViewWriter::put(const TensorView& view, const std::byte* source, std::span<const std::int64_t> strides,
                     DType from) {
  if (view.device == nullptr && from == view.dtype)
    return strided_copy(view.data, source, dims(view.sizes, strides, view.strides), element_size(from),
                        CopyUse::later);
  const auto elements = static_cast<std::uint64_t>(element_count(view.sizes));
  if (!is_row_major(view.sizes, strides)) {
    packed_.resize(elements * element_size(from));
    strided_copy(packed_.data(), source, dims(view.sizes, strides, contiguous_strides(view.sizes)),
                 element_size(from));
    source = packed_.data();
  }
  if (from != view.dtype) {
    cast_.resize(view.byte_count());
    cast(cast_, view.dtype, {source, elements * element_size(from)}, from);
    source = cast_.data();
  }
  copy_in(source, view);
}

}  // namespace cairn
