// SPDX-License-Identifier: BSD-3-Clause
#include "plan/name_index.hpp"

#include <algorithm>
#include <bit>

#include "base/keyed_hash.hpp"

namespace cairn {
namespace {

std::uint32_t tag_of(std::size_t hash) { return static_cast<std::uint32_t>(hash >> 32); }

}  // namespace

void NameIndex::reserve(std::size_t count) {
  names_.reserve(count);
  grow(std::bit_ceil(std::max<std::size_t>(2 * count, 16)));
}

// The slot of the name, or the empty one where it would be.
std::size_t NameIndex::slot_of(std::string_view name, std::uint32_t tag, std::size_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
    const Slot slot = slots_[at];
    if (slot.number == kNone || (slot.tag == tag && names_[slot.number] == name)) return at;
  }
}

void NameIndex::grow(std::size_t slots) {
  if (slots <= slots_.size()) return;
  slots_.assign(slots, Slot{});
  for (std::uint32_t number = 0; number < names_.size(); ++number) {
    const std::size_t hash = KeyedHash{}(names_[number]);
    slots_[slot_of(names_[number], tag_of(hash), hash)] = {number, tag_of(hash)};
  }
}

std::uint32_t NameIndex::find(std::string_view name) const {
  if (next_ < names_.size() && names_[next_] == name) return next_++;
  if (slots_.empty()) return kNone;
  const std::size_t hash = KeyedHash{}(name);
  const std::uint32_t number = slots_[slot_of(name, tag_of(hash), hash)].number;
  if (number != kNone) next_ = number + 1;
  return number;
}

std::uint32_t NameIndex::add(std::string_view name) {
  if (next_ < names_.size() && names_[next_] == name) return next_++;
  if (2 * (names_.size() + 1) > slots_.size()) grow(std::max<std::size_t>(2 * slots_.size(), 16));
  const std::size_t hash = KeyedHash{}(name);
  Slot& slot = slots_[slot_of(name, tag_of(hash), hash)];
  if (slot.number == kNone) {
    slot = {static_cast<std::uint32_t>(names_.size()), tag_of(hash)};
    names_.push_back(name);
  }
  next_ = slot.number + 1;
  return slot.number;
}

}  // namespace cairn
