// SPDX-License-Identifier: BSD-3-Clause
#include "pickle/persistent_nodes.hpp"

#include "pickle/walk.hpp"

namespace cairn::pickle {

std::vector<Value> persistent_nodes(const Arena& arena, Value root) {
  std::vector<Value> found;
  Walk walk(arena, root);
  for (Value value; walk.next(value);) {
    if (value.kind() == Kind::persistent) found.push_back(value);
  }
  return found;
}

}  // namespace cairn::pickle
