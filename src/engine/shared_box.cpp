// SPDX-License-Identifier: BSD-3-Clause
#include "engine/shared_box.hpp"

#include <algorithm>

#include "plan/linear.hpp"

namespace cairn {

void ElementRun::for_each_box(const std::function<void(BoxView)>& visit) const {
  if (std::ranges::all_of(box.offsets, [](std::int64_t offset) { return offset == 0; }))
    return cairn::for_each_box(box.sizes, first, last, visit);
  std::vector<std::int64_t> offsets(box.ndim());
  cairn::for_each_box(box.sizes, first, last, [&](BoxView inner) {
    for (std::size_t d = 0; d < offsets.size(); ++d) offsets[d] = box.offsets[d] + inner.offsets[d];
    visit({offsets, inner.sizes});
  });
}

std::uint64_t SharedBox::element_count() const {
  std::uint64_t count = 1;
  for (const CopyDim& dim : dims) count *= static_cast<std::uint64_t>(dim.size);
  return count;
}

bool SharedBox::is_run() const {
  std::int64_t expected = 1;
  for (std::size_t d = dims.size(); d-- > 0;) {
    if (dims[d].size != 1 && dims[d].target_stride != expected) return false;
    expected *= dims[d].size;
  }
  return true;
}

bool share(const ElementRun& run, BoxView wanted, BoxView stored, const ChunkPlace& place, SharedBox& out) {
  out.dims.resize(run.box.ndim());
  out.has_first = true;
  std::int64_t from = 0, to = -run.first, stride = 1;
  for (std::size_t d = run.box.ndim(); d-- > 0;) {
    const auto begin = std::max(wanted.offsets[d], stored.offsets[d]);
    const auto end = std::min(wanted.offsets[d] + wanted.sizes[d], stored.offsets[d] + stored.sizes[d]);
    if (begin >= end) return false;
    out.dims[d] = {end - begin, place.strides[d], stride};
    out.has_first = out.has_first && begin == stored.offsets[d];
    from += (begin - stored.offsets[d]) * place.strides[d];
    to += (begin - run.box.offsets[d]) * stride;
    stride *= run.box.sizes[d];
  }
  out.from_byte = place.first_byte + static_cast<std::uint64_t>(from) * run.element_bytes;
  out.to_byte = static_cast<std::uint64_t>(to) * run.element_bytes;
  return true;
}

bool reads_in_runs(BoxView box, std::span<const std::int64_t> shape, BoxView stored) {
  std::size_t cut = 0;  // the innermost dimension that is
  bool whole = true;    // the box holds all of the chunk
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (box.sizes[d] != shape[d]) cut = d;
    whole = whole && box.offsets[d] <= stored.offsets[d] &&
            stored.offsets[d] + stored.sizes[d] <= box.offsets[d] + box.sizes[d];
  }
  return whole || std::all_of(stored.sizes.begin(), stored.sizes.begin() + static_cast<std::ptrdiff_t>(cut),
                              [](std::int64_t size) { return size == 1; });
}

}  // namespace cairn
