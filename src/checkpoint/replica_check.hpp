// SPDX-License-Identifier: BSD-3-Clause
// Whether ranks hold the same values of what they hold together.
#pragma once

#include <functional>

#include "cairn/communicator.hpp"
#include "cairn/live_state.hpp"

namespace cairn {

/// Collective. Compares boxes and objects that several ranks have, bit by bit, through 128-bit hashes. Throws
/// mismatch on all ranks, naming the first ten that differ with two ranks each. `object_bytes(entry)` is an
/// object as it would be stored. Reads what is held together once, and nothing else.
void require_equal_replicas(Communicator& comm, const LiveState& state,
                            const std::function<Bytes(std::size_t entry)>& object_bytes);

}  // namespace cairn
