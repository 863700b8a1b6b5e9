// SPDX-License-Identifier: BSD-3-Clause
#include "parallel/polling.hpp"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace cairn {

void Backoff::pause() {
  constexpr int most_yields = 30;
  if (yields_ < most_yields) {
    ++yields_;
    sched_yield();
    return;
  }
  constexpr std::chrono::microseconds first_sleep{10};
  std::this_thread::sleep_for(std::max(sleep_, first_sleep));
  // Grows by an eighth: the sleep stays a fraction of what was waited already.
  sleep_ =
      std::min(longest_sleep_, std::max(sleep_, first_sleep) + sleep_ / 8 + std::chrono::microseconds(1));
}

void wait_by_polling(Request& request, std::chrono::microseconds longest_sleep) {
  Backoff backoff(longest_sleep);
  while (!request.test()) backoff.pause();
}

std::uint64_t agree(Communicator& comm, std::uint64_t word) {
  std::uint64_t result = 0;
  const auto request = comm.start_agree(word, result);
  wait_by_polling(*request);
  return result;
}

void barrier(Communicator& comm) {
  const auto request = comm.start_barrier();
  wait_by_polling(*request);
}

}  // namespace cairn
