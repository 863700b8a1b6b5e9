// SPDX-License-Identifier: BSD-3-Clause
// The last step of planning a save: the catalogue of what will be written, proven to be whole. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "cairn/plan.hpp"
#include "plan/held_pieces.hpp"

namespace cairn {

struct NamedItem {
  std::uint32_t name;  ///< number
  PlannedItem item;
};

class PlannedCatalog {
 public:
  /// `items` in order of first appearance; the parts of `plan` are there, the catalogue is to be made.
  PlannedCatalog(std::span<const RankState* const> states, const HeldPieces& pieces,
                 std::span<const NamedItem> items, GlobalSavePlan& plan)
      : states_(states), pieces_(pieces), items_(items), plan_(plan) {}

  /// Throws mismatch when an element is not covered exactly once, or paths exclude each other.
  void build();

 private:
  void sort_by_name();
  std::span<const std::uint32_t> items_of(std::uint32_t name) const {
    return std::span(by_name_).subspan(begins_[name], begins_[name + 1] - begins_[name]);
  }
  void add(std::uint32_t name);
  void add_chunks(std::uint32_t name);
  void require_whole(std::uint32_t name, std::span<const std::int64_t> shape);
  void add_path(std::uint32_t name);
  StringId intern(std::string_view text);

  std::span<const RankState* const> states_;
  const HeldPieces& pieces_;
  std::span<const NamedItem> items_;
  GlobalSavePlan& plan_;
  std::vector<std::uint32_t> begins_, by_name_;
  NameIndex keys_;                 // texts of keys, each once
  std::vector<StringId> key_ids_;  // their ids in the catalogue
  std::vector<PathStep> path_, last_path_;
  PlanFaults faults_;
};

}  // namespace cairn
