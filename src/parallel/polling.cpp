// SPDX-License-Identifier: BSD-3-Clause
#include "parallel/polling.hpp"

#include <sched.h>

#include <algorithm>
#include <thread>

#include "parallel/attention.hpp"

namespace cairn {

void Backoff::pause() {
  attend();
  if (std::chrono::steady_clock::now() - start_ < patience_.yielding) {
    sched_yield();
    return;
  }
  std::this_thread::sleep_for(sleep_);
  sleep_ = std::min(patience_.longest_sleep, sleep_ + sleep_ / 8);
}

void wait_by_polling(Request& request, Patience patience) {
  Backoff backoff(patience);
  while (!request.test()) backoff.pause();
}

std::uint64_t agree(Communicator& comm, std::uint64_t word) {
  std::uint64_t result = 0;
  const auto request = comm.start_agree(word, result);
  wait_by_polling(*request, for_events);
  return result;
}

void barrier(Communicator& comm) {
  const auto request = comm.start_barrier();
  wait_by_polling(*request, for_events);
}

}  // namespace cairn
