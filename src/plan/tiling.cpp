// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "base/checked.hpp"
#include "plan/chunk_grid.hpp"

namespace cairn {
namespace {

// Corners cost 2^d a box; beyond this many cut dimensions few boxes are compared in pairs and many refused.
constexpr std::size_t kMaxCornerDims = 6;
constexpr std::size_t kMaxPairwiseBoxes = 512;

unsigned __int128 radix_of(std::int64_t extent) { return static_cast<unsigned __int128>(extent) + 1; }

// A corner of a box in the dimensions that are cut, as a number that sorts row-major. The product of (size +
// 1) over at most 6 dimensions stays below 2^69, since the element count fits 63 bits.
struct Corner {
  unsigned __int128 key;
  int sign;
};

class Corners {
 public:
  Corners(std::span<const std::int64_t> shape, std::span<const std::size_t> dims)
      : shape_(shape), dims_(dims) {}

  void add(BoxView box, int sign) {
    for (std::uint32_t mask = 0; mask < (1u << dims_.size()); ++mask) {
      unsigned __int128 key = 0;
      for (std::size_t i = 0; i < dims_.size(); ++i) {
        const std::size_t d = dims_[i];
        const std::int64_t at = box.offsets[d] + ((mask >> i & 1) != 0 ? box.sizes[d] : 0);
        key = key * radix_of(shape_[d]) + static_cast<unsigned __int128>(at);
      }
      corners_.push_back({key, __builtin_popcount(mask) % 2 == 0 ? sign : -sign});
    }
  }

  // The boxes' indicator functions sum up to the whole's exactly when all corners cancel; the first corner
  // that does not is the first element, row-major, where they differ: nothing before it contributes.
  std::optional<TilingFault> first_uncancelled() {
    std::ranges::sort(corners_, {}, &Corner::key);
    for (std::size_t i = 0; i < corners_.size();) {
      int sum = 0;
      std::size_t next = i;
      for (; next < corners_.size() && corners_[next].key == corners_[i].key; ++next)
        sum += corners_[next].sign;
      if (sum != 0) return TilingFault{element_of(corners_[i].key), sum > 0};
      i = next;
    }
    return std::nullopt;
  }

 private:
  std::vector<std::int64_t> element_of(unsigned __int128 key) const {
    std::vector<std::int64_t> element(shape_.size(), 0);
    for (std::size_t i = dims_.size(); i-- > 0;) {
      const auto radix = radix_of(shape_[dims_[i]]);
      element[dims_[i]] = static_cast<std::int64_t>(key % radix);
      key /= radix;
    }
    return element;
  }

  std::span<const std::int64_t> shape_;
  std::span<const std::size_t> dims_;
  std::vector<Corner> corners_;
};

// Whether the boxes lie one behind the other along one dimension, as those of most tensors do: no memory, no
// index.
bool are_slices_in_order(std::span<const std::int64_t> shape, std::size_t count, const BoxAt& box_at) {
  std::size_t dim = shape.size();
  std::int64_t end = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const BoxView box = box_at(i);
    if (box.empty()) continue;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (box.sizes[d] == shape[d] || d == dim) continue;
      if (dim != shape.size()) return false;
      dim = d;
    }
    if (dim == shape.size() || box.offsets[dim] != end) return false;
    end += box.sizes[dim];
  }
  return dim != shape.size() && end == shape[dim];
}

std::vector<std::size_t> cut_dimensions(std::span<const std::int64_t> shape, std::size_t count,
                                        const BoxAt& box_at) {
  std::vector<bool> cut(shape.size(), false);
  for (std::size_t i = 0; i < count; ++i) {
    const BoxView box = box_at(i);
    if (box.empty()) continue;
    for (std::size_t d = 0; d < shape.size(); ++d) cut[d] = cut[d] || box.sizes[d] != shape[d];
  }
  std::vector<std::size_t> dims;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (cut[d]) dims.push_back(d);
  }
  return dims;
}

std::optional<TilingFault> pairwise_fault(std::span<const std::int64_t> shape, std::size_t count,
                                          const BoxAt& box_at) {
  std::int64_t uncovered = element_count(shape);
  Box shared;
  for (std::size_t i = 0; i < count; ++i) {
    uncovered -= element_count(box_at(i).sizes);
    for (std::size_t k = 0; k < i; ++k) {
      if (intersect(box_at(i), box_at(k), shared)) return TilingFault{shared.offsets, true};
    }
  }
  if (uncovered == 0) return std::nullopt;
  return TilingFault{{}, false};
}

}  // namespace

std::optional<TilingFault> find_tiling_fault(std::span<const std::int64_t> shape, std::size_t count,
                                             const BoxAt& box_at) {
  const bool whole_tensor = count == 1 && std::ranges::equal(box_at(0).sizes, shape);
  if (whole_tensor || element_count(shape) == 0 || are_slices_in_order(shape, count, box_at) ||
      ChunkGrid::find(shape, count, box_at))
    return std::nullopt;
  const auto dims = cut_dimensions(shape, count, box_at);
  if (dims.size() > kMaxCornerDims) {
    if (count <= kMaxPairwiseBoxes) return pairwise_fault(shape, count, box_at);
    fail(ErrorKind::unsupported, "{} chunks cut in {} dimensions that form no grid", count, dims.size());
  }
  Corners corners(shape, dims);
  Box whole;
  whole.offsets.assign(shape.size(), 0);
  whole.sizes.assign(shape.begin(), shape.end());
  corners.add(whole, -1);
  for (std::size_t i = 0; i < count; ++i) {
    if (!box_at(i).empty()) corners.add(box_at(i), 1);
  }
  return corners.first_uncancelled();
}

}  // namespace cairn
