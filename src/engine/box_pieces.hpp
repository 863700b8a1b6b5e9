// SPDX-License-Identifier: BSD-3-Clause
// A large box in pieces that threads, or ranks, share. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cairn/box.hpp"

namespace cairn {

/// Pieces of at most `most_elements` elements, or of one: whole inner dimensions, as many steps of the next
/// one as fit, single steps of those outside. So each piece is one run of the box's row-major order, and they
/// follow each other in that order.
class BoxPieces {
 public:
  BoxPieces(std::span<const std::int64_t> sizes, std::int64_t most_elements);

  /// 0 for an empty box.
  std::uint64_t count() const { return count_; }
  /// Piece `index` in the coordinates of the box.
  Box piece(std::uint64_t index) const;

 private:
  std::vector<std::int64_t> sizes_, steps_;
  std::uint64_t count_ = 1;
};

}  // namespace cairn
