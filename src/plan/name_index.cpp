// SPDX-License-Identifier: BSD-3-Clause
#include "plan/name_index.hpp"

#include <algorithm>
#include <bit>

#include "base/keyed_hash.hpp"

namespace cairn {
namespace {

std::uint32_t tag_of(std::string_view name) { return static_cast<std::uint32_t>(KeyedHash{}(name)); }

}  // namespace

void NameIndex::reserve(std::size_t count) {
  names_.reserve(count);
  grow(std::bit_ceil(std::max<std::size_t>(2 * count, 16)));
}

// The slot of the name, or the empty one where it would be.
std::size_t NameIndex::slot_of(std::string_view name, std::uint32_t tag) const {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = tag & mask;; at = (at + 1) & mask) {
    const Slot slot = slots_[at];
    if (slot.number == kNone || (slot.tag == tag && names_[slot.number] == name)) return at;
  }
}

void NameIndex::grow(std::size_t count) {
  if (count <= slots_.size()) return;
  std::vector<Slot> old(count);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.number == kNone) continue;
    std::size_t at = slot.tag & (count - 1);
    while (slots_[at].number != kNone) at = (at + 1) & (count - 1);
    slots_[at] = slot;
  }
}

std::uint32_t NameIndex::find(std::string_view name) const {
  if (next_ < names_.size() && names_[next_] == name) return next_++;
  if (slots_.empty()) return kNone;
  const std::uint32_t number = slots_[slot_of(name, tag_of(name))].number;
  if (number != kNone) next_ = number + 1;
  return number;
}

std::uint32_t NameIndex::add(std::string_view name) {
  if (next_ < names_.size() && names_[next_] == name) return next_++;
  if (2 * (names_.size() + 1) > slots_.size()) grow(std::max<std::size_t>(4 * slots_.size(), 16));
  const std::uint32_t tag = tag_of(name);
  Slot& slot = slots_[slot_of(name, tag)];
  if (slot.number == kNone) {
    slot = {static_cast<std::uint32_t>(names_.size()), tag};
    names_.push_back(name);
  }
  next_ = slot.number + 1;
  return slot.number;
}

}  // namespace cairn
