// SPDX-License-Identifier: BSD-3-Clause
// Which windows are written, with the CRCs that came with them: from the threads that write to the one that
// keeps account. Local, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/window_filler.hpp"

namespace cairn {

struct FinishedWindows {
  std::vector<std::uint64_t> windows;  ///< their numbers, in any order
  PassedBytes passed;                  ///< of all of them
};

class WindowLog {
 public:
  void add(std::uint64_t window, PassedBytes&& passed) {
    const std::lock_guard lock(mutex_);
    finished_.windows.push_back(window);
    finished_.passed.add(passed);
  }
  std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return finished_.windows.size();
  }
  /// What was added since the last call.
  FinishedWindows take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(finished_, {});
  }

 private:
  mutable std::mutex mutex_;
  FinishedWindows finished_;
};

}  // namespace cairn
