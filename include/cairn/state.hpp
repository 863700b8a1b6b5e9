// SPDX-License-Identifier: BSD-3-Clause
// Row: plan. A training state as the planners see it: flat names, types, shapes and the boxes that one rank
// has of each tensor. Never the data. Local, pure.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/box.hpp"
#include "cairn/layout.hpp"
#include "cairn/tensor.hpp"

namespace cairn {

/// One step of a nesting path, as a part of the flat name, which is the path's steps joined by dots:
/// "l.0.w" cut as {1}, {1, position}, {1} is ('l', 0, 'w').
struct NameCut {
  std::uint32_t length;      ///< bytes of the name
  bool is_position = false;  ///< of a list, in decimal digits; else a dict's key

  friend bool operator==(const NameCut&, const NameCut&) = default;
};

// --- nested states -------------------------------------------------------------------------------------

/// A value of a nested state. Leaves carry an id of the caller's.
struct StateNode {
  enum class Kind : std::uint8_t { dict, list, tuple, tensor, object };

  Kind kind = Kind::object;
  std::uint64_t id = 0;
  std::vector<std::string> keys;  ///< of a dict, as Python's str() spells them; else empty
  std::vector<StateNode> items;   ///< of dict, list and tuple

  static StateNode tensor(std::uint64_t id) { return {Kind::tensor, id, {}, {}}; }
  static StateNode object(std::uint64_t id) { return {Kind::object, id, {}, {}}; }
  static StateNode list(std::vector<StateNode> items) { return {Kind::list, 0, {}, std::move(items)}; }
  static StateNode tuple(std::vector<StateNode> items) { return {Kind::tuple, 0, {}, std::move(items)}; }
  static StateNode dict(std::vector<std::pair<std::string, StateNode>> items);
};

struct FlatEntry {
  std::string name;
  std::vector<NameCut> cuts;
  const StateNode* value;  ///< a tensor; else what is stored as one object: a leaf, a list or a tuple
};

/// The flat names of a state, as torch 2.4 and later make them. Dicts are walked; a list is walked when it
/// holds, through lists, a tensor or a dict, and is one object otherwise; tuples are objects. An empty dict
/// leaves nothing. Order: as in the state. `root` is a dict and outlives the result.
///
/// Throws invalid_argument when two paths get one name, naming it, and beyond 1000 levels.
std::vector<FlatEntry> flatten(const StateNode& root);

// --- what a rank has -----------------------------------------------------------------------------------

/// A 128-bit hash, equal on all machines. Not proof against an adversary.
struct Fingerprint {
  std::uint64_t low = 0, high = 0;

  friend auto operator<=>(const Fingerprint&, const Fingerprint&) = default;
};

/// What one rank has of a state: what it offers to a save, or wants of a load. Entries keep the order in
/// which they were added, and are referred to by their index. Flat arrays; some 120 bytes a tensor.
class RankState {
 public:
  enum class Kind : std::uint8_t { tensor, object, rank_object };

  explicit RankState(int rank) : rank_(rank) {}

  // --- looking -------------------------------------------------------------------------------------------
  int rank() const { return rank_; }
  std::size_t size() const { return entries_.size(); }
  std::string_view name(std::size_t entry) const {
    return {characters_.data() + entries_[entry].name_at, entries_[entry].name_length};
  }
  /// Empty: the name is the only key.
  std::span<const NameCut> cuts(std::size_t entry) const {
    return std::span(cuts_).subspan(entries_[entry].cuts_at, entries_[entry].cut_count);
  }
  Kind kind(std::size_t entry) const { return entries_[entry].kind; }
  bool is_tensor(std::size_t entry) const { return kind(entry) == Kind::tensor; }
  DType dtype(std::size_t entry) const { return entries_[entry].dtype; }
  std::span<const std::int64_t> shape(std::size_t entry) const {
    return std::span(coordinates_).subspan(entries_[entry].coordinates_at, entries_[entry].ndim);
  }
  std::size_t box_count(std::size_t entry) const { return entries_[entry].box_count; }
  BoxView box(std::size_t entry, std::size_t index) const {
    const Entry& row = entries_[entry];
    const std::span<const std::int64_t> pool(coordinates_);
    const std::size_t at = row.coordinates_at + (1 + 2 * index) * row.ndim;
    return {pool.subspan(at, row.ndim), pool.subspan(at + row.ndim, row.ndim)};
  }
  /// Of an object, as it was given.
  std::uint64_t object_bytes(std::size_t entry) const { return entries_[entry].object_bytes; }

  // --- building; all throw invalid_argument --------------------------------------------------------------
  /// A tensor, whose boxes are added right after it. `cuts` spell the name, or are empty.
  void add_tensor(std::string_view name, DType dtype, std::span<const std::int64_t> shape,
                  std::span<const NameCut> cuts = {});
  /// Of the tensor added last, inside its shape.
  void add_box(BoxView box);
  /// With the boxes that the layout gives this rank. A rank that owns nothing of it still knows the name.
  void add_tensor(std::string_view name, DType dtype, const TensorLayout& layout,
                  std::span<const NameCut> cuts = {});
  /// An object that any rank with the name may write. `bytes`: about how long it is stored.
  void add_object(std::string_view name, std::uint64_t bytes, std::span<const NameCut> cuts = {});
  /// An object that is this rank's own, under name + ".rank_R".
  void add_rank_object(std::string_view name, std::uint64_t bytes, std::span<const NameCut> cuts = {});

  /// Of all that was added, and of the rank. Equal states have equal ones.
  Fingerprint fingerprint() const;

  /// Binary form for the wire: names without what they share with the one before, short integers. decode()
  /// throws corrupt on what encode() did not write, and takes memory in proportion to the bytes.
  std::vector<std::byte> encode() const;
  static RankState decode(std::span<const std::byte> bytes);

 private:
  struct Entry {  // no padding: hashed as bytes
    std::uint64_t name_at, coordinates_at, cuts_at, object_bytes;
    std::uint32_t name_length, box_count, cut_count;
    std::uint16_t ndim;
    DType dtype;
    Kind kind;
  };
  void add_entry(std::string_view name, std::span<const NameCut> cuts, Kind kind, DType dtype,
                 std::span<const std::int64_t> shape, std::uint64_t object_bytes);

  int rank_;
  std::vector<Entry> entries_;
  std::vector<char> characters_;
  std::vector<NameCut> cuts_;
  std::vector<std::int64_t> coordinates_;  // of an entry: shape, then offsets and sizes of each box
};

}  // namespace cairn
