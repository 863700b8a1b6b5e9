// SPDX-License-Identifier: BSD-3-Clause
// Row: tensor. Boxes: half-open N-dimensional pieces of a tensor in global coordinates. Local, pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cairn {

/// A view of a box that lies in a pool of coordinates: [offsets, offsets + sizes) in elements, both of length
/// ndim. ndim 0 is one element. Any size of 0 makes the box empty.
struct BoxView {
  std::span<const std::int64_t> offsets, sizes;

  std::size_t ndim() const { return sizes.size(); }
  bool empty() const;
};

/// A box that owns its coordinates.
struct Box {
  std::vector<std::int64_t> offsets, sizes;

  operator BoxView() const { return {offsets, sizes}; }  // NOLINT: a Box is a BoxView wherever one is read
};

/// Product of `sizes`; 1 for none. Throws corrupt on a negative size or 64-bit overflow.
std::int64_t element_count(std::span<const std::int64_t> sizes);

/// Both of one ndim: whether they share an element.
bool overlaps(BoxView a, BoxView b);
/// Whether `inner` lies inside [0, shape) in every dimension. False when the ndims differ.
bool inside(BoxView inner, std::span<const std::int64_t> shape);
/// The shared part of two boxes of one ndim, written into `out` (resized); false and unspecified when empty.
bool intersect(BoxView a, BoxView b, Box& out);

/// Row-major strides in elements for a contiguous tensor of this shape, as PyTorch computes them (a dimension
/// of size 0 counts as 1).
std::vector<std::int64_t> contiguous_strides(std::span<const std::int64_t> shape);

/// "[1, 2]" and "[0:4, 8:16]" for messages.
std::string to_string(std::span<const std::int64_t> values);
std::string to_string(BoxView box);

}  // namespace cairn
