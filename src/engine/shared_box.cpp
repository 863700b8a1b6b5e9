// SPDX-License-Identifier: BSD-3-Clause
#include "engine/shared_box.hpp"

#include <algorithm>

namespace cairn {

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
  out.dims.resize(run.shape.size());
  out.has_first = true;
  std::int64_t from = 0, to = -run.first, stride = 1;
  for (std::size_t d = run.shape.size(); d-- > 0;) {
    const auto begin = std::max(wanted.offsets[d], stored.offsets[d]);
    const auto end = std::min(wanted.offsets[d] + wanted.sizes[d], stored.offsets[d] + stored.sizes[d]);
    if (begin >= end) return false;
    out.dims[d] = {end - begin, place.strides[d], stride};
    out.has_first = out.has_first && begin == stored.offsets[d];
    from += (begin - stored.offsets[d]) * place.strides[d];
    to += begin * stride;
    stride *= run.shape[d];
  }
  out.from_byte = place.first_byte + static_cast<std::uint64_t>(from) * run.element_bytes;
  out.to_byte = static_cast<std::uint64_t>(to) * run.element_bytes;
  return true;
}

}  // namespace cairn
