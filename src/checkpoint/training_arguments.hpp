// SPDX-License-Identifier: BSD-3-Clause
// What callers pass about the components of an iteration.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cairn/communicator.hpp"

namespace cairn {

/// Collective. Throws invalid_argument unless all ranks pass what rank 0 passes.
void require_equal(Communicator& comm, std::string_view what, const Bytes& mine);

template <class Component>
std::vector<std::string> names_of(const std::vector<Component>& components) {
  std::vector<std::string> names;
  for (const Component& component : components) names.push_back(component.name);
  return names;
}

/// Local. Throws invalid_argument for names that no directory of a component has, and for none.
void check_names(const std::vector<std::string>& names);

}  // namespace cairn
