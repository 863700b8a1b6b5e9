// SPDX-License-Identifier: BSD-3-Clause
// Loads onto devices: what all ranks want alike over their link, all else through pinned buffers.
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "cairn/load.hpp"
#include "cairn/save.hpp"
#include "failure_of.hpp"
#include "played_devices.hpp"
#include "shared_directory.hpp"

namespace cairn {
namespace {

constexpr std::int64_t kRows = 700, kColumns = 1'000;

std::uint64_t ranks() { return static_cast<std::uint64_t>(world().size()); }

/// The same tensors in the processors' memory and on devices: two replicated ones, rows, columns.
template <class State>
void add_tensors(State& state, bool filled) {
  const int n = world().size();
  state.add("replicated", DType::float32, TensorLayout::replicated({kRows, kColumns}, n), 1, filled);
  state.add("small", DType::int16, TensorLayout::replicated({77}, n), 2, filled);
  state.add("rows", DType::bfloat16, TensorLayout::sharded({kRows, kColumns}, 0, n), 3, filled);
  state.add("columns", DType::uint8, TensorLayout::sharded({kRows, kColumns}, 1, n), 4, filled);
}
constexpr std::uint64_t kReplicated = kRows * kColumns * 4 + 77 * 2;

/// A checkpoint of them, and devices.
struct Loading : SharedDirectory {
  Loading() : SharedDirectory([](const TempDir&) {}) {
    IotaState state(world().rank());
    add_tensors(state, true);
    SaveOptions unsynced;
    unsynced.sync = false;
    save(world(), posix_file_system(), state.live, path() + "/ckpt", unsynced);
  }
  LoadReport load(DeviceState& state, DeviceLink* link, int threads = 2) const {
    LoadOptions options;
    options.read_once = ReadOnce::on;
    options.device_link = link;
    options.threads = threads;
    return cairn::load(world(), posix_file_system(), path() + "/ckpt", state.live, options);
  }
};

void expect_loaded(DeviceState& state) {
  for (std::size_t entry = 0; entry < state.live.size(); ++entry)
    EXPECT_EQ(state.wrong_bytes(entry, entry + 1), 0u) << entry;
}

TEST(DeviceLoad, WhatAllWantAlikeIsReadOnceAndBroadcast) {
  const Loading saved;
  PlayedDevices devices(16 << 20);
  const auto link = devices.link();
  DeviceState state(devices, world().rank());
  add_tensors(state, false);
  const LoadReport report = saved.load(state, link.get());
  expect_loaded(state);
  const bool many = ranks() > 1;
  EXPECT_EQ(report.device_received_bytes, (ranks() - 1) * kReplicated);
  EXPECT_EQ(report.received_bytes, (ranks() - 1) * kReplicated) << "nothing by way of the processors";
  EXPECT_EQ(devices.nccl.broadcast_bytes(), many ? kReplicated : 0);
  EXPECT_GT(devices.cuda.stream_count(), 1u) << "a stream of the link and one of pinned buffers at least";
  EXPECT_EQ(devices.cuda.pending_operations(), 0);
}

TEST(DeviceLoad, WithoutALinkTheProcessorsSendAndTheBuffersCopy) {
  const Loading saved;
  PlayedDevices devices(16 << 20);
  DeviceState state(devices, world().rank());
  add_tensors(state, false);
  const LoadReport report = saved.load(state, nullptr);
  expect_loaded(state);
  EXPECT_EQ(report.device_received_bytes, 0u);
  EXPECT_EQ(report.received_bytes, (ranks() - 1) * kReplicated);
  EXPECT_EQ(devices.nccl.broadcast_bytes(), 0u);
}

TEST(DeviceLoad, ARankWithoutALinkOrOnItsProcessorTakesAllOthersWithIt) {
  if (ranks() == 1) return;
  const Loading saved;
  PlayedDevices devices(16 << 20);
  const auto link = devices.link();
  const bool is_last = world().rank() == world().size() - 1;
  DeviceState state(devices, world().rank());
  add_tensors(state, false);
  EXPECT_EQ(saved.load(state, is_last ? nullptr : link.get()).device_received_bytes, 0u);
  expect_loaded(state);

  IotaState on_processor(world().rank());
  add_tensors(on_processor, false);
  LoadOptions options;
  options.read_once = ReadOnce::on;
  options.device_link = link.get();
  DeviceState again(devices, world().rank());
  add_tensors(again, false);
  LiveState& mixed = is_last ? on_processor.live : again.live;
  EXPECT_EQ(load(world(), posix_file_system(), saved.path() + "/ckpt", mixed, options).device_received_bytes,
            0u);
  if (!is_last) expect_loaded(again);
  for (std::size_t i = 0; is_last && i < 4; ++i) EXPECT_EQ(on_processor.wrong_bytes(i, i + 1), 0u);
}

TEST(DeviceLoad, ALinkOfOtherRanksIsRefused) {
  if (ranks() == 1) return;
  const Loading saved;
  PlayedDevices devices(16 << 20);
  const auto link = devices.link();
  const auto alone = world().split(world().rank(), 0);
  DeviceState state(devices, 0);
  LoadOptions options;
  options.device_link = link.get();
  const Error error =
      failure_of([&] { load(*alone, posix_file_system(), saved.path() + "/ckpt", state.live, options); });
  EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
}

// --- failures -------------------------------------------------------------------------------------------

/// A load whose table `arm` makes fail on one rank: everybody's error, which names it.
void expect_failure(const Loading& saved, int bad, const std::function<void(PlayedDevices&)>& arm,
                    const char* text) {
  PlayedDevices devices(16 << 20);
  const auto link = devices.link();
  DeviceState state(devices, world().rank());
  add_tensors(state, false);
  if (world().rank() == bad) arm(devices);
  const Error error = failure_of([&] { saved.load(state, link.get()); });
  EXPECT_EQ(error.kind(), ErrorKind::io);
  EXPECT_TRUE(contains(error, text)) << error.what();
  EXPECT_FALSE(error.hint().empty()) << "tensors hold a part of the new values";
  ASSERT_EQ(error.failures().size(), 1u) << error.what();
  EXPECT_EQ(error.failures()[0].rank, bad);
  for (const Bytes& theirs : world().gather(as_bytes(error.what()), 0))
    EXPECT_EQ(as_text(theirs), error.what());
}

TEST(DeviceLoad, ACopyToTheDeviceThatFailsOnARankIsEverybodysError) {
  const Loading saved;
  for (int bad = 0; bad < world().size(); ++bad) {
    for (const int n : {0, 1})
      expect_failure(
          saved, bad, [&](PlayedDevices& devices) { devices.cuda.fail_copy(n); }, "cudaMemcpyAsync failed");
  }
}

TEST(DeviceLoad, ACallOfNcclThatFailsOnARankIsEverybodysError) {
  if (ranks() == 1) return;  // nothing is sent
  const Loading saved;
  for (int bad = 0; bad < world().size(); ++bad) {
    for (int n = 0; n < 4; ++n)  // the group's begin, two broadcasts or more, and its end or a third one
      expect_failure(
          saved, bad, [&](PlayedDevices& devices) { devices.nccl.fail_call(n); }, FakeNccl::kBadText);
  }
}

TEST(DeviceLoad, WhatNcclFailsWithInTheBackgroundEndsTheWaitsOfAll) {
  if (ranks() == 1) return;
  const Loading saved;
  for (int bad = 0; bad < world().size(); ++bad) {
    for (const int polls : {0, 1, 3})
      expect_failure(
          saved, bad, [&](PlayedDevices& devices) { devices.nccl.fail_in_the_background(polls); },
          FakeNccl::kBadText);
  }
}

}  // namespace
}  // namespace cairn
