// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/process_memory.hpp"

#include <fstream>
#include <string>

namespace cairn {

std::uint64_t peak_rss_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::uint64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib * 1024;
  }
  return 0;
}

}  // namespace cairn
