// SPDX-License-Identifier: BSD-3-Clause
#include "base/workers.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/fail.hpp"
#include "failure_of.hpp"

namespace cairn {
namespace {

TEST(Workers, AllRunAndAreWaitedFor) {
  std::atomic<int> ran{0};
  run_workers(5, [&](const std::atomic<bool>&) { ++ran; });
  EXPECT_EQ(ran, 5);
}

TEST(Workers, AFailureStopsTheOthersAndIsThrown) {
  std::atomic<int> calls{0};
  const Error error = failure_of([&] {
    run_workers(3, [&](const std::atomic<bool>& stop) {
      if (calls++ == 0) fail_corrupt("the first one");
      while (!stop) std::this_thread::yield();
    });
  });
  EXPECT_TRUE(contains(error, "the first one"));
}

TEST(Workers, TheCallerIsPolledMeanwhile) {
  std::atomic<bool> polled{false};
  const auto caller = std::this_thread::get_id();
  run_workers(
      1,
      [&](const std::atomic<bool>&) {
        while (!polled) std::this_thread::yield();
      },
      [&] {
        EXPECT_EQ(std::this_thread::get_id(), caller);
        polled = true;
      });
  EXPECT_TRUE(polled);
}

}  // namespace
}  // namespace cairn
