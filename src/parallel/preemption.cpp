// SPDX-License-Identifier: BSD-3-Clause
#include "cairn/preemption.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/fail.hpp"

namespace cairn {
namespace {

std::atomic<bool> is_taken{false};
volatile std::sig_atomic_t is_received = 0;

extern "C" void receive(int) { is_received = 1; }

}  // namespace

PreemptionNotice::PreemptionNotice(const std::vector<int>& signals) {
  if (is_taken.exchange(true))
    fail(ErrorKind::invalid_argument, "a process has one preemption notice at a time");
  is_received = 0;
  struct sigaction action = {};
  action.sa_handler = receive;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : signals) {
    struct sigaction before;
    if (sigaction(signal, &action, &before) != 0) {
      const int reason = errno;
      restore();
      fail(ErrorKind::invalid_argument, "signal {} cannot be caught: {}", signal, std::strerror(reason));
    }
    before_.emplace_back(signal, before);
  }
}

PreemptionNotice::~PreemptionNotice() { restore(); }

void PreemptionNotice::restore() {
  for (auto at = before_.rbegin(); at != before_.rend(); ++at) sigaction(at->first, &at->second, nullptr);
  is_taken = false;
}

bool PreemptionNotice::received() const { return is_received != 0; }

bool PreemptionNotice::received_by_any(Communicator& comm) const {
  return agree(comm, received() ? 1 : 0) != 0;
}

}  // namespace cairn
