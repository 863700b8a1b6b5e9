// SPDX-License-Identifier: BSD-3-Clause
#include "plan/container_paths.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace cairn {

bool ContainerPaths::Container::operator==(const Container& other) const {
  return name == other.name && std::ranges::equal(cuts, other.cuts);
}

void ContainerPaths::check(PlanFaults& faults) {
  for (std::uint32_t name = 0; name < names_.size(); ++name) check(name, faults);
}

void ContainerPaths::check(std::uint32_t name, PlanFaults& faults) {
  const std::string_view text = names_[name];
  const auto cuts = cuts_of_(name);
  std::size_t end = 0;
  bool is_shared = true;  // with the name before: this container, and what kind it is
  for (std::size_t depth = 1; depth < cuts.size(); ++depth) {
    end += cuts[depth - 1].length + (depth > 1 ? 1 : 0);
    const bool is_list = cuts[depth].is_position;
    is_shared = is_shared && depth < last_cuts_.size() && cuts[depth - 1] == last_cuts_[depth - 1] &&
                is_list == last_cuts_[depth].is_position && text.substr(0, end) == last_name_.substr(0, end);
    if (!is_shared) check(name, {text.substr(0, end), cuts.first(depth)}, is_list, faults);
  }
  last_name_ = text;
  last_cuts_ = cuts;
}

void ContainerPaths::check(std::uint32_t name, Container container, bool is_list, PlanFaults& faults) {
  const auto [at, is_new] = containers_.try_emplace(container, First{name, is_list});
  if (!is_new) {
    if (at->second.is_list != is_list) {
      faults.add("'{}' and '{}' would make one container a dict and a list",
                 escape_name(names_[at->second.user]), escape_name(names_[name]));
    }
    return;
  }
  const std::uint32_t leaf = names_.find(container.name);
  if (leaf == NameIndex::kNone) return;
  const auto cuts = cuts_of_(leaf);
  const bool is_same = cuts.empty() ? container.cuts.size() == 1 : std::ranges::equal(cuts, container.cuts);
  if (is_same) faults.add("'{}' would lie under '{}'", escape_name(names_[name]), escape_name(names_[leaf]));
}

}  // namespace cairn
