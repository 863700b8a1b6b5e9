// SPDX-License-Identifier: BSD-3-Clause
// What this process has used. Local.
#pragma once

#include <cstdint>

namespace cairn {

/// VmHWM of /proc/self/status in bytes; 0 where there is none. Unlike ru_maxrss it does not count what a
/// parent held at the fork.
std::uint64_t peak_rss_bytes();

}  // namespace cairn
