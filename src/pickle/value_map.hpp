// SPDX-License-Identifier: BSD-3-Clause
// A compact hash map from values, by identity, to 32-bit numbers.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <utility>

#include "pickle/pool.hpp"
#include "pickle/value.hpp"

namespace cairn::pickle {

class ValueMap {
 public:
  std::optional<std::uint32_t> find(Value key) const {
    if (count_ == 0) return {};
    const std::size_t slot = slot_of(key);
    if (keys_[slot] == kFree) return {};
    return numbers_[slot];
  }
  /// False, and nothing changed, if `key` is there already.
  bool insert(Value key, std::uint32_t number) {
    if (2 * count_ >= keys_.size()) grow();
    const std::size_t slot = slot_of(key);
    if (keys_[slot] == key) return false;
    keys_[slot] = key;
    numbers_[slot] = number;
    ++count_;
    return true;
  }

 private:
  static constexpr Value kFree{~std::uint64_t{0}};

  std::size_t slot_of(Value key) const {
    const std::size_t mask = keys_.size() - 1;
    std::size_t slot = (key.bits * 0x9e3779b97f4a7c15u) >> (64 - std::countr_zero(keys_.size()));
    while (keys_[slot] != key && keys_[slot] != kFree) slot = (slot + 1) & mask;
    return slot;
  }

  void grow() {
    ValueMap larger;
    const std::size_t slots = keys_.size() == 0 ? 64 : 2 * keys_.size();
    larger.keys_.extend(slots);
    larger.numbers_.extend(slots);
    for (std::size_t i = 0; i < slots; ++i) larger.keys_[i] = kFree;
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      if (keys_[i] != kFree) larger.insert(keys_[i], numbers_[i]);
    }
    *this = std::move(larger);
  }

  Pool<Value> keys_;
  Pool<std::uint32_t> numbers_;
  std::size_t count_ = 0;
};

}  // namespace cairn::pickle
