// SPDX-License-Identifier: BSD-3-Clause
// A map from values, by identity, to 32-bit numbers: paged arrays over the handles' own indices, which are
// dense and mostly visited in order (a hash table of ten million entries spends its time on cache misses).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "pickle/value.hpp"

namespace cairn::pickle {

/// Keys are any values but None, bools, ints and floats. Numbers are below 2^32 - 1.
class ValueMap {
 public:
  std::optional<std::uint32_t> find(Value key) const {
    const Pages& pages = pages_[identity_space(key)];
    const std::uint64_t index = identity_index(key), page = index / kPageSize;
    if (page >= pages.size() || pages[page] == nullptr) return {};
    const std::uint32_t stored = (*pages[page])[index % kPageSize];
    return stored == 0 ? std::nullopt : std::optional(stored - 1);
  }
  /// False, and nothing changed, if `key` is there already.
  bool insert(Value key, std::uint32_t number) {
    Pages& pages = pages_[identity_space(key)];
    const std::uint64_t index = identity_index(key), page = index / kPageSize;
    if (page >= pages.size()) pages.resize(page + 1);
    if (pages[page] == nullptr) pages[page] = std::make_unique<Page>();
    std::uint32_t& stored = (*pages[page])[index % kPageSize];
    if (stored != 0) return false;
    stored = number + 1;
    return true;
  }

 private:
  static constexpr std::size_t kPageSize = 1024;
  using Page = std::array<std::uint32_t, kPageSize>;  // number + 1; 0 for none
  using Pages = std::vector<std::unique_ptr<Page>>;

  std::array<Pages, kIdentitySpaces> pages_;
};

}  // namespace cairn::pickle
