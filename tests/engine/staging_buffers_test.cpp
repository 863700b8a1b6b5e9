// SPDX-License-Identifier: BSD-3-Clause
// Blocks come in turn and each is alone in its memory, with any number of threads on both sides; a failure of
// either side ends the waiting of both.
#include "engine/staging_buffers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/workers.hpp"

namespace cairn {
namespace {

using Side = StagingBuffers::Side;

std::exception_ptr failure() { return std::make_exception_ptr(std::runtime_error("broken")); }

TEST(StagingBuffers, GiveTheRoomInTurnAndNeverABlockAcrossItsEnd) {
  std::vector<std::byte> room(100);
  StagingBuffers buffers(room);
  const auto place = [&](std::uint64_t bytes) { return buffers.take(bytes)->bytes.data() - room.data(); };
  EXPECT_EQ(place(60), 0);
  EXPECT_EQ(place(0), 0);
  EXPECT_EQ(place(40), 60);
  for (const std::uint64_t block : {0u, 1u, 2u}) buffers.set_filled(block);
  EXPECT_EQ(buffers.await(2).data(), room.data() + 60);
  EXPECT_TRUE(buffers.await(1).empty());
  buffers.set_drained(0);
  buffers.set_drained(1);
  EXPECT_EQ(place(50), 0);
  buffers.set_drained(2);
  EXPECT_EQ(place(20), 50);
  buffers.set_filled(3);
  buffers.set_drained(3);
  EXPECT_EQ(place(40), 0) << "30 bytes are left at the end";
  EXPECT_EQ(buffers.taken_bytes(), 210u);
}

TEST(StagingBuffers, HaveRoomForABlockAsLargeAsAll) {
  std::vector<std::byte> room(64);
  StagingBuffers buffers(room);
  for (std::uint64_t block = 0; block < 5; ++block) {
    const std::uint64_t bytes = block % 2 == 0 ? 64 : 24;
    EXPECT_EQ(buffers.take(bytes)->bytes.size(), bytes);
    buffers.set_filled(block);
    EXPECT_EQ(buffers.await(block).size(), bytes);
    buffers.set_drained(block);
  }
}

TEST(StagingBuffers, WithoutRoomHaveEmptyBlocks) {
  StagingBuffers buffers({});
  EXPECT_EQ(buffers.take(0)->number, 0u);
  buffers.set_filled(0);
  EXPECT_TRUE(buffers.await(0).empty());
}

// Each block carries its number in every byte; what is overwritten too early has another one.
TEST(StagingBuffers, CarryAllBytesWithAnyNumberOfThreads) {
  constexpr std::uint64_t kBlocks = 600;
  for (const int threads : {1, 2, 4}) {
    std::vector<std::byte> room(1000);
    StagingBuffers buffers(room);
    std::mutex order;
    std::uint64_t taken = 0;
    std::atomic<std::uint64_t> next{0}, wrong{0};
    const auto take = [&] {
      const std::lock_guard lock(order);
      return taken == kBlocks ? std::nullopt : buffers.take(1 + taken++ * 7919 % 450);
    };
    std::thread filling([&] {
      run_workers(threads, [&](const std::atomic<bool>&) {
        while (const auto block = take()) {
          std::ranges::fill(block->bytes, static_cast<std::byte>(block->number));
          buffers.set_filled(block->number);
        }
      });
      buffers.finish_filling();
    });
    run_workers(threads, [&](const std::atomic<bool>&) {
      for (std::uint64_t i = next++; i < kBlocks; i = next++) {
        const auto bytes = buffers.await(i);
        wrong += bytes.size() != 1 + i * 7919 % 450;
        wrong += !std::ranges::all_of(bytes, [&](std::byte b) { return b == static_cast<std::byte>(i); });
        buffers.set_drained(i);
      }
    });
    buffers.await_filling_finished();
    filling.join();
    EXPECT_EQ(wrong, 0u) << threads;
  }
}

TEST(StagingBuffers, ThatStopWakeBothSides) {
  for (const Side side : {Side::fill, Side::drain}) {
    std::vector<std::byte> room(10);
    StagingBuffers buffers(room);
    EXPECT_TRUE(buffers.take(10));
    std::thread filler([&] { EXPECT_FALSE(buffers.take(1)); });
    std::thread writer([&] { EXPECT_THROW(buffers.await(0), std::runtime_error); });
    buffers.require_going();
    buffers.stop(side, failure());
    buffers.stop(side == Side::fill ? Side::drain : Side::fill, nullptr);
    filler.join();
    writer.join();
    EXPECT_EQ(buffers.stopped(), side) << "the first failure counts";
    EXPECT_THROW(buffers.require_going(), std::runtime_error);
  }
}

}  // namespace
}  // namespace cairn
