// SPDX-License-Identifier: BSD-3-Clause
#include "formats/dcp/name_table.hpp"

#include <algorithm>

#include "base/keyed_hash.hpp"

namespace cairn::dcp {

std::uint32_t NameTable::number(Value name) {
  if (const auto known = known_.find(name)) return *known;
  const std::uint32_t found = number_of_text(store_.text(name));
  known_.insert(name, found);
  return found;
}

std::uint32_t NameTable::number_of_text(std::string_view text) {
  if (2 * (texts_.size() + 1) > slots_.size()) grow();
  const std::uint64_t hash = KeyedHash{}(text);
  const auto tag = static_cast<std::uint32_t>(hash >> 32);
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash & mask;
  for (; slots_[at].number_and_one != 0; at = (at + 1) & mask) {
    const std::uint32_t number = slots_[at].number_and_one - 1;
    if (slots_[at].tag == tag && texts_[number] == text) return number;
  }
  texts_.push_back(text);
  hashes_.push_back(hash);
  slots_[at] = {count(), tag};
  return count() - 1;
}

void NameTable::grow() {
  slots_.assign(std::max<std::size_t>(64, 2 * slots_.size()), {});
  const std::size_t mask = slots_.size() - 1;
  for (std::uint32_t i = 0; i < count(); ++i) {
    std::size_t at = hashes_[i] & mask;
    while (slots_[at].number_and_one != 0) at = (at + 1) & mask;
    slots_[at] = {i + 1, static_cast<std::uint32_t>(hashes_[i] >> 32)};
  }
}

}  // namespace cairn::dcp
