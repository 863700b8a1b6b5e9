// SPDX-License-Identifier: BSD-3-Clause
// The pauses of a loop that polls for messages of reads.
#pragma once

#include <chrono>
#include <optional>

#include "parallel/polling.hpp"

namespace cairn {

// Bytes move only inside of polls. Who has none on their way polls seldom: it takes cores from those who
// have.
inline constexpr Patience kMovingPatience{std::chrono::microseconds(100), std::chrono::microseconds(50)};
inline constexpr Patience kIdlePatience{std::chrono::microseconds(20), std::chrono::microseconds(500)};

/// They grow until something has moved.
class ReadPauses {
 public:
  void pause(bool is_moving) {
    if (is_moving != is_moving_) end();
    is_moving_ = is_moving;
    (backoff_ ? *backoff_ : backoff_.emplace(is_moving ? kMovingPatience : kIdlePatience)).pause();
  }
  void end() { backoff_.reset(); }

 private:
  bool is_moving_ = true;
  std::optional<Backoff> backoff_;
};

}  // namespace cairn
