// SPDX-License-Identifier: BSD-3-Clause
// Waiting without burning a core: ranks may outnumber the cores.
#pragma once

#include <chrono>

#include "cairn/communicator.hpp"

namespace cairn {

/// Pauses between polls: yields first, then sleeps, longer the longer it has waited, at most `longest_sleep`.
class Backoff {
 public:
  explicit Backoff(std::chrono::microseconds longest_sleep = std::chrono::milliseconds(1))
      : longest_sleep_(longest_sleep) {}
  void pause();

 private:
  std::chrono::microseconds longest_sleep_;
  std::chrono::microseconds sleep_{0};
  int yields_ = 0;
};

/// Tests until done. Where bytes move only while somebody polls, `longest_sleep` bounds the rate.
void wait_by_polling(Request& request,
                     std::chrono::microseconds longest_sleep = std::chrono::milliseconds(1));

}  // namespace cairn
