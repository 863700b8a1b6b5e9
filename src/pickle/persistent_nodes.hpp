// SPDX-License-Identifier: BSD-3-Clause
// Finding the persistent nodes (torch: storages) of a value.
#pragma once

#include <vector>

#include "pickle/value.hpp"

namespace cairn::pickle {

/// Local. Every persistent node reachable from `root`, each once, in no promised order. Takes time and memory
/// proportional to what is reachable; any nesting.
std::vector<Value> persistent_nodes(const Arena& arena, Value root);

}  // namespace cairn::pickle
