// SPDX-License-Identifier: BSD-3-Clause
#include "plan/piece_owners.hpp"

#include <algorithm>

#include "base/pool.hpp"

namespace cairn {
namespace {

// What takes no room is given out evenly, too.
std::uint64_t cost_of(std::uint64_t bytes) { return std::max<std::uint64_t>(bytes, 1); }

}  // namespace

// What one rank alone holds is counted first: replicas then fill up the ranks that have less.
PieceOwners::PieceOwners(const HeldPieces& pieces, std::span<const RankState* const> states,
                         const SavePlanOptions& options)
    : pieces_(pieces), states_(states), planned_(states.size(), 0) {
  reserve_large(rows_, pieces.pieces().size());
  rows_.resize(pieces.pieces().size());
  for (const Piece& piece : pieces.pieces()) {
    if (piece.holder_count == 1) planned_[pieces.holders(piece)[0]] += cost_of(piece.bytes);
  }
  reserve_large(parts_, rows_.size());
  for (std::uint32_t held = 0; held < pieces.held().size(); ++held) {
    const std::uint32_t piece = pieces.piece_of(held);
    if (pieces.pieces()[piece].first == held) assign(piece, options);
  }
}

std::vector<std::size_t> PieceOwners::count_by_owner() const {
  std::vector<std::size_t> counts(states_.size(), 0);
  for (const OwnedPart& part : parts_) ++counts[part.owner];
  return counts;
}

void PieceOwners::assign(std::uint32_t piece, const SavePlanOptions& options) {
  const auto holders = pieces_.holders(pieces_.pieces()[piece]);
  const std::uint32_t count = count_parts(piece, options.split_bytes);
  const std::uint64_t bytes = cost_of(pieces_.pieces()[piece].bytes / count);
  rows_[piece].first_part = static_cast<std::uint32_t>(parts_.size());
  rows_[piece].part_count = count;
  const bool is_free = holders.size() > 1 && (options.replicas == ReplicaRule::balanced || count > 1);
  for (std::uint32_t index = 0; index < count; ++index) {
    const std::uint32_t owner =
        is_free ? *std::ranges::min_element(holders, {}, [&](std::uint32_t rank) { return planned_[rank]; })
                : holders[0];
    if (holders.size() > 1) planned_[owner] += bytes;
    parts_.push_back({owner, index});
  }
  if (count > 1) std::ranges::stable_sort(std::span(parts_).last(count), {}, &OwnedPart::owner);
}

std::uint32_t PieceOwners::count_parts(std::uint32_t piece, std::uint64_t split_bytes) {
  const Piece& row = pieces_.pieces()[piece];
  const Held& first = pieces_.held()[row.first];
  const RankState& state = *states_[first.rank];
  if (split_bytes == 0 || row.bytes <= split_bytes || row.holder_count == 1 || !state.is_tensor(first.entry))
    return 1;
  const auto sizes = state.box(first.entry, first.box).sizes;
  const auto wanted =
      static_cast<std::int64_t>(std::min<std::uint64_t>(row.holder_count, (row.bytes - 1) / split_bytes + 1));
  const auto outermost = std::ranges::find_if(sizes, [&](std::int64_t size) { return size >= wanted; });
  const auto dim = outermost != sizes.end() ? outermost : std::ranges::max_element(sizes);
  if (dim == sizes.end()) return 1;
  rows_[piece].dim = static_cast<std::uint32_t>(dim - sizes.begin());
  return static_cast<std::uint32_t>(std::min(wanted, *dim));
}

void PieceOwners::cut(std::uint32_t piece, std::uint32_t index, Box& box) const {
  const Row& row = rows_[piece];
  if (row.part_count == 1) return;
  const std::int64_t size = box.sizes[row.dim], each = size / row.part_count, longer = size % row.part_count;
  box.offsets[row.dim] += each * index + std::min<std::int64_t>(index, longer);
  box.sizes[row.dim] = each + (index < longer ? 1 : 0);
}

}  // namespace cairn
