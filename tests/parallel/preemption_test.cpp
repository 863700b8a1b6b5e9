// SPDX-License-Identifier: BSD-3-Clause
#include "cairn/preemption.hpp"

#include <gtest/gtest.h>

#include <csignal>

#include "cairn/error.hpp"

namespace cairn {
namespace {

volatile std::sig_atomic_t before_calls = 0;
extern "C" void before(int) { before_calls = before_calls + 1; }

TEST(Preemption, ASignalIsRememberedAndKnownToAll) {
  const PreemptionNotice notice;
  const auto comm = solo_communicator();
  EXPECT_FALSE(notice.received());
  EXPECT_FALSE(notice.received_by_any(*comm));
  std::raise(SIGTERM);
  EXPECT_TRUE(notice.received());
  EXPECT_TRUE(notice.received_by_any(*comm));
}

TEST(Preemption, ANewNoticeHasReceivedNothing) {
  {
    const PreemptionNotice notice({SIGUSR1});
    std::raise(SIGUSR1);
    EXPECT_TRUE(notice.received());
  }
  EXPECT_FALSE(PreemptionNotice().received());
}

TEST(Preemption, TheHandlersBeforeComeBack) {
  before_calls = 0;
  const auto old = std::signal(SIGUSR1, before);
  { const PreemptionNotice notice; }
  std::raise(SIGUSR1);
  EXPECT_EQ(before_calls, 1);
  std::signal(SIGUSR1, old);
}

TEST(Preemption, ASignalThatCannotBeCaughtLeavesTheOthersAsTheyWere) {
  before_calls = 0;
  const auto old = std::signal(SIGUSR1, before);
  EXPECT_THROW(PreemptionNotice({SIGUSR1, SIGKILL}), Error);
  std::raise(SIGUSR1);
  EXPECT_EQ(before_calls, 1);
  std::signal(SIGUSR1, old);
  EXPECT_NO_THROW(PreemptionNotice());
}

TEST(Preemption, OneAtATime) {
  const PreemptionNotice notice;
  EXPECT_THROW(PreemptionNotice(), Error);
  std::raise(SIGUSR1);
  EXPECT_TRUE(notice.received());
}

}  // namespace
}  // namespace cairn
