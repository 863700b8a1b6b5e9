// SPDX-License-Identifier: BSD-3-Clause
#include "parallel/attention.hpp"

namespace cairn {
namespace {

struct OfThread {
  Attendant* attendant = nullptr;
  std::chrono::steady_clock::time_point next{};
  int at_work = 0;
};
thread_local OfThread of_thread;

}  // namespace

Attended::Attended(Attendant& attendant) : is_first_(of_thread.attendant == nullptr) {
  if (is_first_) of_thread.attendant = &attendant;
}

Attended::~Attended() {
  if (is_first_) of_thread.attendant = nullptr;
}

void attend() noexcept {
  Attendant* const attendant = of_thread.attendant;
  if (attendant == nullptr) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < of_thread.next) return;
  of_thread.attendant = nullptr;  // what it waits with must not call it again
  attendant->attend();
  of_thread.attendant = attendant;
  of_thread.next = now + kAttendInterval;
}

AtWork::AtWork() { ++of_thread.at_work; }
AtWork::~AtWork() { --of_thread.at_work; }
bool is_at_work() { return of_thread.at_work > 0; }

}  // namespace cairn
