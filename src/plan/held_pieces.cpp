// SPDX-License-Identifier: BSD-3-Clause
#include "plan/held_pieces.hpp"

#include <algorithm>
#include <bit>

#include "base/pool.hpp"
#include "base/text.hpp"
#include "plan/fingerprint.hpp"

namespace cairn {
namespace {

constexpr std::uint32_t kNone = 0xffffffff;

bool same_box(BoxView a, BoxView b) {
  return std::ranges::equal(a.offsets, b.offsets) && std::ranges::equal(a.sizes, b.sizes);
}

std::size_t hash_of(BoxView box) {
  FingerprintHash hash;
  for (std::size_t d = 0; d < box.ndim(); ++d) {
    hash.add(static_cast<std::uint64_t>(box.offsets[d]), static_cast<std::uint64_t>(box.sizes[d]));
  }
  return hash.finish().low;
}

std::string_view text(RankState::Kind kind) {
  return kind == RankState::Kind::tensor   ? "a tensor"
         : kind == RankState::Kind::object ? "an object"
                                           : "an object of one rank";
}

}  // namespace

bool is_void(std::span<const std::int64_t> shape) { return std::ranges::find(shape, 0) != shape.end(); }

HeldPieces::HeldPieces(std::span<const RankState* const> states) : states_(states) {
  std::size_t most = 0, held_most = 0;
  for (const RankState* state : states) {
    most = std::max(most, state->size());
    held_most += state->size();
  }
  reserve_large(held_, held_most);
  names_.reserve(most);
  firsts_.reserve(most);
  for (std::uint32_t rank = 0; rank < states.size(); ++rank) number(rank);
  faults_.throw_if_any("the states of the ranks do not fit together");
  find_pieces();
  list_holders();
  faults_.throw_if_any("the states of the ranks do not fit together");
}

void HeldPieces::number(std::uint32_t rank) {
  const RankState& state = *states_[rank];
  for (std::uint32_t entry = 0; entry < state.size(); ++entry) {
    const Held here{names_.add(state.name(entry)), rank, entry, 0};
    if (here.name == firsts_.size()) {
      firsts_.push_back(here);
      last_rank_.push_back(rank);
    } else if (std::exchange(last_rank_[here.name], rank) == rank) {
      faults_.add("'{}' is twice in the state of rank {}", escape_name(state.name(entry)), rank);
    } else {
      require_agreement(firsts_[here.name], here);
    }
    hold(here);
  }
}

void HeldPieces::require_agreement(const Held& first, const Held& other) {
  const RankState &a = *states_[first.rank], &b = *states_[other.rank];
  const auto differ = [&](std::string_view what, std::string_view one, std::string_view two) {
    faults_.add("'{}': {} is {} on rank {}, {} on rank {}", escape_name(a.name(first.entry)), what, one,
                first.rank, two, other.rank);
  };
  const auto kind = a.kind(first.entry);
  if (kind != b.kind(other.entry)) return differ("it", text(kind), text(b.kind(other.entry)));
  if (!std::ranges::equal(a.cuts(first.entry), b.cuts(other.entry)))
    return differ("the path", "one", "another");
  if (kind == RankState::Kind::rank_object) return differ("an object of one rank", "there", "there too");
  if (kind != RankState::Kind::tensor) return;
  if (a.dtype(first.entry) != b.dtype(other.entry))
    return differ("dtype", info(a.dtype(first.entry)).name, info(b.dtype(other.entry)).name);
  if (!std::ranges::equal(a.shape(first.entry), b.shape(other.entry)))
    return differ("shape", to_string(a.shape(first.entry)), to_string(b.shape(other.entry)));
}

// A tensor without elements, and an object, is held by whoever knows the name.
bool HeldPieces::one_piece(const Held& held) const {
  const RankState& state = *states_[held.rank];
  return !state.is_tensor(held.entry) || is_void(state.shape(held.entry));
}

void HeldPieces::hold(const Held& entry) {
  if (one_piece(entry)) return held_.push_back(entry);
  const RankState& state = *states_[entry.rank];
  for (std::uint32_t box = 0; box < state.box_count(entry.entry); ++box) {
    if (!state.box(entry.entry, box).empty()) held_.push_back({entry.name, entry.rank, entry.entry, box});
  }
}

std::uint64_t HeldPieces::bytes_of(const Held& held) const {
  const RankState& state = *states_[held.rank];
  if (!state.is_tensor(held.entry)) return state.object_bytes(held.entry);
  if (is_void(state.shape(held.entry))) return 0;
  const auto elements = static_cast<std::uint64_t>(element_count(state.box(held.entry, held.box).sizes));
  return elements * element_size(state.dtype(held.entry));  // the whole tensor's fit, says the state
}

void HeldPieces::find_pieces() {
  if (held_.size() >= kNone) fail(ErrorKind::unsupported, "a plan of {} items", held_.size());
  std::vector<std::uint32_t> ends(firsts_.size() + 1, 0), by_name(held_.size());
  for (const Held& held : held_) ++ends[held.name + 1];
  for (std::size_t name = 1; name < ends.size(); ++name) ends[name] += ends[name - 1];
  for (std::uint32_t i = 0; i < held_.size(); ++i) by_name[ends[held_[i].name]++] = i;  // now they are ends
  reserve_large(piece_of_, held_.size());
  piece_of_.resize(held_.size());
  reserve_large(pieces_, held_.size());
  reserve_large(last_held_, held_.size());
  std::uint32_t begin = 0;
  for (std::size_t name = 0; name < firsts_.size(); ++name) {
    find_pieces(std::span(by_name).subspan(begin, ends[name] - begin));
    begin = ends[name];
  }
}

// Then no two are the same box. Shards come in this order mostly.
bool HeldPieces::have_rising_offsets(std::span<const std::uint32_t> of_one_name) const {
  const auto offsets_of = [&](std::uint32_t i) {
    return states_[held_[i].rank]->box(held_[i].entry, held_[i].box).offsets;
  };
  for (std::size_t i = 1; i < of_one_name.size(); ++i) {
    if (!std::ranges::lexicographical_compare(offsets_of(of_one_name[i - 1]), offsets_of(of_one_name[i])))
      return false;
  }
  return true;
}

void HeldPieces::find_pieces(std::span<const std::uint32_t> of_one_name) {
  const std::size_t before = pieces_.size();
  const bool is_one = of_one_name.size() == 1 || (!of_one_name.empty() && one_piece(held_[of_one_name[0]]));
  if (!is_one && have_rising_offsets(of_one_name)) {
    for (const std::uint32_t i : of_one_name) add_to_piece(kNone, i);
    return;
  }
  const std::size_t mask = std::bit_ceil(2 * of_one_name.size()) - 1;
  if (!is_one) table_.assign(mask + 1, kNone);
  const auto box_of = [&](std::uint32_t i) {
    return states_[held_[i].rank]->box(held_[i].entry, held_[i].box);
  };
  for (const std::uint32_t i : of_one_name) {
    std::uint32_t piece = is_one && pieces_.size() > before ? static_cast<std::uint32_t>(before) : kNone;
    if (!is_one) {
      std::size_t at = hash_of(box_of(i)) & mask;
      while (table_[at] != kNone && !same_box(box_of(pieces_[table_[at]].first), box_of(i)))
        at = (at + 1) & mask;
      if (table_[at] == kNone)
        table_[at] = static_cast<std::uint32_t>(pieces_.size());
      else
        piece = table_[at];
    }
    add_to_piece(piece, i);
  }
}

void HeldPieces::add_to_piece(std::uint32_t piece, std::uint32_t i) {
  if (piece == kNone) {
    piece_of_[i] = static_cast<std::uint32_t>(pieces_.size());
    pieces_.push_back({i, 0, 1, bytes_of(held_[i])});
    return last_held_.push_back(i);
  }
  piece_of_[i] = piece;
  const Held &last = held_[std::exchange(last_held_[piece], i)], &held = held_[i];
  if (last.rank == held.rank) {
    faults_.add("'{}': rank {} holds box {} twice", escape_name(names_[held.name]), held.rank,
                to_string(states_[held.rank]->box(held.entry, held.box)));
  }
  ++pieces_[piece].holder_count;
  pieces_[piece].bytes = std::max(pieces_[piece].bytes, bytes_of(held));
}

void HeldPieces::list_holders() {
  std::uint32_t at = 0;
  for (Piece& piece : pieces_) {
    piece.first_holder = at;
    at += std::exchange(piece.holder_count, 0);
  }
  reserve_large(holders_, at);
  holders_.resize(at);
  for (std::size_t i = 0; i < held_.size(); ++i) {  // by rank, so that each list is ascending
    Piece& piece = pieces_[piece_of_[i]];
    holders_[piece.first_holder + piece.holder_count++] = held_[i].rank;
  }
}

}  // namespace cairn
