// SPDX-License-Identifier: BSD-3-Clause
// The first step of planning a save: what there is in all states, each thing once, and who holds it. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cairn/state.hpp"
#include "plan/name_index.hpp"
#include "plan/plan_faults.hpp"

namespace cairn {

/// A box of a tensor, or an object, as a rank's state has it.
struct Held {
  std::uint32_t name;  ///< number
  std::uint32_t rank, entry, box;
};

/// A box that all its holders have in the same place; or an object; or a tensor without elements.
struct Piece {
  std::uint32_t first;         ///< index into held(): the first one
  std::uint32_t first_holder;  ///< index into holders()
  std::uint32_t holder_count;
  std::uint64_t bytes;  ///< of an object: the most that a rank says
};

class HeldPieces {
 public:
  /// `states` by rank, 0 … n - 1; they outlive this. Throws mismatch when they do not agree on a name, or one
  /// rank holds a box twice.
  explicit HeldPieces(std::span<const RankState* const> states);

  const NameIndex& names() const { return names_; }
  /// Where a name first appears.
  const Held& first_of(std::uint32_t name) const { return firsts_[name]; }
  /// By rank, entry, box. Empty boxes are left out.
  std::span<const Held> held() const { return held_; }
  std::uint32_t piece_of(std::size_t held) const { return piece_of_[held]; }
  std::span<const Piece> pieces() const { return pieces_; }
  /// Ranks, ascending.
  std::span<const std::uint32_t> holders(const Piece& piece) const {
    return std::span(holders_).subspan(piece.first_holder, piece.holder_count);
  }

 private:
  void number(std::uint32_t rank);
  void require_agreement(const Held& first, const Held& other);
  void hold(const Held& entry);
  void find_pieces();
  void find_pieces(std::span<const std::uint32_t> of_one_name);
  bool have_rising_offsets(std::span<const std::uint32_t> of_one_name) const;
  void add_to_piece(std::uint32_t piece, std::uint32_t held);
  void list_holders();
  std::uint64_t bytes_of(const Held& held) const;
  bool one_piece(const Held& held) const;

  std::span<const RankState* const> states_;
  NameIndex names_;
  std::vector<Held> firsts_;
  std::vector<std::uint32_t> last_rank_;  // of each name
  std::vector<Held> held_;
  std::vector<std::uint32_t> piece_of_, holders_;
  std::vector<Piece> pieces_;
  std::vector<std::uint32_t> last_held_;  // of each piece
  std::vector<std::uint32_t> table_;      // pieces of one name, by their box
  PlanFaults faults_;
};

/// Whether a tensor of this shape has no elements.
bool is_void(std::span<const std::int64_t> shape);

}  // namespace cairn
