// SPDX-License-Identifier: BSD-3-Clause
// Waiting for something outside of MPI that needs all ranks, and does not end when one of them has failed.
#pragma once

#include <functional>
#include <string_view>

#include "cairn/communicator.hpp"

namespace cairn {

/// Collective. on_all_ranks() with a body that is called again and again until it returns true, has thrown,
/// or some rank has thrown: then it is not called any more, and every rank throws the same Error. It never
/// blocks and must not use `comm`. Ranks tell rank 0 how they ended, and it tells all.
void poll_on_all_ranks(std::string_view step, Communicator& comm, const std::function<bool()>& body);

}  // namespace cairn
