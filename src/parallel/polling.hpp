// SPDX-License-Identifier: BSD-3-Clause
// Waiting without burning a core: ranks may outnumber the cores.
#pragma once

#include <chrono>

#include "cairn/communicator.hpp"

namespace cairn {

/// How long polls follow each other without sleep, and how long the longest sleep is after that. Sleeps start
/// at 10 us and grow with the time waited.
struct Patience {
  std::chrono::microseconds yielding;
  std::chrono::microseconds longest_sleep;
};

/// For words and barriers: the others may be minutes away, or as near as a switch between two ranks of one
/// core; a sleep, which the kernel rounds up to some 60 us, would then be most of the wait.
constexpr Patience for_events{std::chrono::microseconds(300), std::chrono::milliseconds(1)};
/// For bytes: they move only inside of polls, so a poll that sleeps while they flow costs most of the rate.
constexpr Patience for_transfers{std::chrono::milliseconds(10), std::chrono::microseconds(200)};

/// The pauses between the polls of one wait. The thread is attended in them (parallel/attention.hpp).
class Backoff {
 public:
  explicit Backoff(Patience patience) : patience_(patience) {}
  void pause();

 private:
  Patience patience_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::microseconds sleep_{10};
};

/// Tests until done.
void wait_by_polling(Request& request, Patience patience);

}  // namespace cairn
