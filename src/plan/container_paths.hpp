// SPDX-License-Identifier: BSD-3-Clause
// Do the paths of the names in a plan fit into one nested state? Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <unordered_map>

#include "base/keyed_hash.hpp"
#include "cairn/state.hpp"
#include "plan/name_index.hpp"
#include "plan/plan_faults.hpp"

namespace cairn {

/// Each name is different, and spelled by its own path: so two paths exclude each other only where a leaf is
/// a container to the other, or where one container is a dict and a list. Only containers are looked at, and
/// those that a name shares with the one before not again.
class ContainerPaths {
 public:
  using CutsOf = std::function<std::span<const NameCut>(std::uint32_t name)>;

  /// `cuts_of` gives the path of a name by its number.
  ContainerPaths(const NameIndex& names, CutsOf cuts_of) : names_(names), cuts_of_(std::move(cuts_of)) {}

  void check(PlanFaults& faults);

 private:
  struct Container {
    std::string_view name;
    std::span<const NameCut> cuts;
    bool operator==(const Container& other) const;
  };
  struct Hash {
    std::size_t operator()(const Container& container) const {
      return keyed_hash(std::as_bytes(std::span(container.name.data(), container.name.size())),
                        container.cuts.size());
    }
  };
  struct First {
    std::uint32_t user;
    bool is_list;
  };
  void check(std::uint32_t name, PlanFaults& faults);
  void check(std::uint32_t name, Container container, bool is_list, PlanFaults& faults);

  const NameIndex& names_;
  CutsOf cuts_of_;
  std::unordered_map<Container, First, Hash> containers_;
  std::string_view last_name_;
  std::span<const NameCut> last_cuts_;
};

}  // namespace cairn
