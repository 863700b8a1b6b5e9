// SPDX-License-Identifier: BSD-3-Clause
// The second step of planning a save: who writes which piece, or part of one. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cairn/plan.hpp"
#include "plan/held_pieces.hpp"

namespace cairn {

/// One of `count` parts of a piece, cut along a dimension.
struct OwnedPart {
  std::uint32_t owner;  ///< rank
  std::uint32_t index;
};

class PieceOwners {
 public:
  PieceOwners(const HeldPieces& pieces, std::span<const RankState* const> states,
              const SavePlanOptions& options);

  /// By owner, then by index.
  std::span<const OwnedPart> parts(std::uint32_t piece) const {
    return std::span(parts_).subspan(rows_[piece].first_part, rows_[piece].part_count);
  }
  /// Of each rank.
  std::vector<std::size_t> count_by_owner() const;
  /// Cuts the box of a piece down to one of its parts.
  void cut(std::uint32_t piece, std::uint32_t index, Box& box) const;

 private:
  struct Row {
    std::uint32_t first_part = 0, part_count = 0, dim = 0;
  };
  void assign(std::uint32_t piece, const SavePlanOptions& options);
  std::uint32_t count_parts(std::uint32_t piece, std::uint64_t split_bytes);

  const HeldPieces& pieces_;
  std::span<const RankState* const> states_;
  std::vector<std::uint64_t> planned_;  // bytes by rank
  std::vector<Row> rows_;               // by piece
  std::vector<OwnedPart> parts_;
};

}  // namespace cairn
