// SPDX-License-Identifier: BSD-3-Clause
#include "engine/box_pieces.hpp"

#include <algorithm>

namespace cairn {
namespace {

std::int64_t pieces_along(std::int64_t size, std::int64_t step) { return (size + step - 1) / step; }

}  // namespace

BoxPieces::BoxPieces(std::span<const std::int64_t> sizes, std::int64_t most_elements)
    : sizes_(sizes.begin(), sizes.end()), steps_(sizes.size(), 1) {
  if (BoxView{sizes_, sizes_}.empty()) {
    count_ = 0;
    return;
  }
  std::int64_t room = std::max<std::int64_t>(most_elements, 1);
  for (std::size_t d = sizes_.size(); d-- > 0 && room > 0;) {
    steps_[d] = std::min(sizes_[d], room);
    room = steps_[d] == sizes_[d] ? room / sizes_[d] : 0;
  }
  for (std::size_t d = 0; d < sizes_.size(); ++d)
    count_ *= static_cast<std::uint64_t>(pieces_along(sizes_[d], steps_[d]));
}

Box BoxPieces::piece(std::uint64_t index) const {
  Box out{sizes_, steps_};
  for (std::size_t d = sizes_.size(); d-- > 0;) {
    const auto along = static_cast<std::uint64_t>(pieces_along(sizes_[d], steps_[d]));
    out.offsets[d] = static_cast<std::int64_t>(index % along) * steps_[d];
    out.sizes[d] = std::min(steps_[d], sizes_[d] - out.offsets[d]);
    index /= along;
  }
  return out;
}

}  // namespace cairn
