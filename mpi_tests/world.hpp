// SPDX-License-Identifier: BSD-3-Clause
// The ranks that run a test program. Every rank runs every test; a failed ASSERT on one rank must not skip a
// collective that the others enter.
#pragma once

#include "cairn/communicator.hpp"

namespace cairn {

/// All ranks. Lives as long as main().
Communicator& world();

}  // namespace cairn
