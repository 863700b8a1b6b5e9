// SPDX-License-Identifier: BSD-3-Clause
// Seconds of work that all ranks share. Collective.
#pragma once

#include <chrono>

#include "cairn/communicator.hpp"

namespace cairn {

/// From when the last rank begins `body` until the last one has ended it.
template <class Body>
double timed(Communicator& comm, Body&& body) {
  barrier(comm);
  const auto start = std::chrono::steady_clock::now();
  body();
  barrier(comm);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace cairn
