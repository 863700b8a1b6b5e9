// SPDX-License-Identifier: BSD-3-Clause
// Numbers for the names of a `.metadata`: each stands in up to three of its dicts, as the same str object or
// as another with the same text.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/dcp/metadata_store.hpp"
#include "pickle/value_map.hpp"

namespace cairn::dcp {

class NameTable {
 public:
  /// The store must outlive this object and not grow.
  explicit NameTable(const MetadataStore& store) : store_(store) {}

  /// The number of a str: equal for equal text, counted from 0 in the order of asking.
  std::uint32_t number(Value name);
  std::uint32_t count() const { return static_cast<std::uint32_t>(texts_.size()); }

 private:
  struct Slot {
    std::uint32_t number_and_one = 0;  // 0: free
    std::uint32_t tag = 0;             // the upper half of the hash
  };
  std::uint32_t number_of_text(std::string_view text);
  void grow();

  const MetadataStore& store_;
  pickle::ValueMap known_;
  std::vector<std::string_view> texts_;  // live in the store
  std::vector<std::uint64_t> hashes_;
  std::vector<Slot> slots_;  // open addressing
};

}  // namespace cairn::dcp
