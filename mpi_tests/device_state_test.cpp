// SPDX-License-Identifier: BSD-3-Clause
// Live states on devices: saved through pinned buffers, and made one torch file by sends between devices.
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>

#include "base/text.hpp"
#include "cairn/async_save.hpp"
#include "cairn/consolidate_live.hpp"
#include "cairn/save.hpp"
#include "expect_whole.hpp"
#include "failure_of.hpp"
#include "played_devices.hpp"
#include "shared_directory.hpp"
#include "storage/fault.hpp"

namespace cairn {
namespace {

constexpr std::size_t kDeviceBytes = 40 << 20;

int ranks() { return world().size(); }
void nothing(const TempDir&) {}

void fill(DeviceState& state) {
  const int n = ranks();
  state.add("rows", DType::float32, TensorLayout::sharded({1'203, 1'000}, 0, n), 1);
  state.add("columns", DType::bfloat16, TensorLayout::sharded({500, 2'002}, 1, n), 2);
  state.add("replicated", DType::int64, TensorLayout::replicated({300, 100}, n), 3);
  state.add("empty", DType::uint8, TensorLayout::replicated({0, 3}, n), 4);
  for (int i = 0; i < 40; ++i)
    state.add("small." + std::to_string(i), DType::int16, TensorLayout::sharded({i + 1, 9}, 0, n), 5);
}

SaveOptions unsynced() {
  SaveOptions options;
  options.sync = false;
  return options;
}

void expect_same_files(const SharedDirectory& dir, const std::string& a, const std::string& b) {
  if (dir.mine() == nullptr) return;
  const auto names = posix_file_system().list(dir.path() + "/" + a);
  EXPECT_EQ(names, posix_file_system().list(dir.path() + "/" + b));
  for (const std::string& name : names) {
    if (name.ends_with(".distcp")) {
      EXPECT_TRUE(dir.mine()->read(a + "/" + name) == dir.mine()->read(b + "/" + name)) << name;
    }
  }
}

/// The same Error on all ranks, of the rank that failed.
void expect_failure_of(int bad, const std::function<void()>& body, const char* text) {
  const Error error = failure_of(body);
  EXPECT_EQ(error.kind(), ErrorKind::io);
  EXPECT_TRUE(contains(error, text)) << error.what();
  for (const Bytes& theirs : world().gather(as_bytes(error.what()), 0))
    EXPECT_EQ(as_text(theirs), error.what());
  ASSERT_EQ(error.failures().size(), 1u) << error.what();
  EXPECT_EQ(error.failures()[0].rank, bad);
}

// --- saves ------------------------------------------------------------------------------------------------

TEST(DeviceSave, WritesTheBytesOfTheSameStateInTheProcessorsMemory) {
  const SharedDirectory dir(nothing);
  PlayedDevices devices(kDeviceBytes);
  DeviceState state(devices, world().rank());
  fill(state);
  save(world(), posix_file_system(), state.on_processor(), dir.path() + "/processor", unsynced());
  save(world(), posix_file_system(), state.live, dir.path() + "/device", unsynced());
  expect_same_files(dir, "device", "processor");
  expect_whole(dir.path() + "/device");
  EXPECT_EQ(devices.cuda.pending_operations(), 0);
}

TEST(DeviceSave, InTheBackgroundWritesWhatTheDeviceHeldAtTheCall) {
  const SharedDirectory dir(nothing);
  PlayedDevices devices(kDeviceBytes);
  const auto fill_large = [](DeviceState& state) {
    fill(state);
    state.add("large", DType::uint8, TensorLayout::sharded({ranks(), 3 << 20}, 0, ranks()), 6);
  };
  DeviceState state(devices, world().rank());
  fill_large(state);
  save(world(), posix_file_system(), state.on_processor(), dir.path() + "/processor", unsynced());
  for (const std::uint64_t cap : {std::uint64_t{1} << 20, std::uint64_t{4} << 30}) {
    AsyncSaveOptions staged;
    staged.staging_bytes = cap;
    AsyncSaver saver(world(), posix_file_system(), staged);
    DeviceState changing(devices, world().rank());
    fill_large(changing);
    const std::string folder = "device" + std::to_string(cap);
    AsyncSave pending = saver.save(changing.live, dir.path() + "/" + folder, unsynced());
    changing.clear();
    EXPECT_EQ(pending.staging().over_cap, cap < (2 << 20));
    pending.wait();
    expect_same_files(dir, folder, "processor");
  }
}

TEST(DeviceSave, ACopyThatFailsOnARankIsEverybodysErrorAndLeavesNothing) {
  const SharedDirectory dir(nothing);
  for (int bad = 0; bad < ranks(); ++bad) {
    for (const int copy : {0, 2}) {
      PlayedDevices devices(kDeviceBytes);
      DeviceState state(devices, world().rank());
      fill(state);
      if (world().rank() == bad) devices.cuda.fail_copy(copy);
      expect_failure_of(
          bad, [&] { save(world(), posix_file_system(), state.live, dir.path() + "/ckpt", unsynced()); },
          "cudaMemcpyAsync failed");
      EXPECT_FALSE(posix_file_system().status(dir.path() + "/ckpt/.metadata"));
      EXPECT_EQ(devices.cuda.pending_operations(), 0);
      barrier(world());
    }
  }
}

// --- one file ---------------------------------------------------------------------------------------------

ConsolidateOptions overwriting(WriteMode mode = WriteMode::gather) {
  ConsolidateOptions options;
  options.write = mode;
  options.sync = false;
  options.overwrite = true;
  return options;
}

void expect_same_file(const SharedDirectory& dir, const std::string& a, const std::string& b) {
  if (dir.mine() == nullptr) return;
  const std::string bytes = dir.mine()->read(a);
  EXPECT_GT(bytes.size(), 1'000'000u);
  EXPECT_TRUE(bytes == dir.mine()->read(b));
}

TEST(DeviceConsolidate, SendsFromDeviceToDeviceWhatTheProcessorsWouldHave) {
  const SharedDirectory dir(nothing);
  PlayedDevices devices(kDeviceBytes);
  const auto link = devices.link();
  DeviceState state(devices, world().rank());
  fill(state);
  state.live.add_object("step", 7);
  const auto run = [&](const std::string& name, DeviceLink* by, const ConsolidateOptions& options) {
    consolidate(world(), posix_file_system(), state.live, dir.path() + "/" + name + "/out.pth", options, by);
    return agree(world(), devices.nccl.sent_bytes() > 0 ? 1 : 0) != 0;
  };
  EXPECT_FALSE(run("processors", nullptr, overwriting()));
  for (const int threads : {1, 4}) {
    auto options = overwriting();
    options.threads = threads;
    EXPECT_EQ(run("devices", link.get(), options), ranks() > 1);
    expect_same_file(dir, "devices/out.pth", "processors/out.pth");
  }
  // all of the rows and columns of the other ranks, twice, but for small rests
  const std::uint64_t held = state.live.view(0, 0).byte_count() + state.live.view(1, 0).byte_count();
  if (world().rank() > 0) {
    EXPECT_GT(devices.nccl.sent_bytes(), held * 3 / 2);
    EXPECT_LE(devices.nccl.sent_bytes(), 2 * (held + state.live.view(2, 0).byte_count()));
  }
  EXPECT_EQ(devices.cuda.pending_operations(), 0);
}

TEST(DeviceConsolidate, WithoutALinkOnSomeRankAndWhereAllWriteTheProcessorsSend) {
  const SharedDirectory dir(nothing);
  PlayedDevices devices(kDeviceBytes);
  const auto link = devices.link();
  DeviceState state(devices, world().rank());
  fill(state);
  const auto run = [&](const std::string& name, DeviceLink* by, WriteMode mode) {
    consolidate(world(), posix_file_system(), state.live, dir.path() + "/" + name + "/out.pth",
                overwriting(mode), by);
  };
  run("processors", nullptr, WriteMode::gather);
  run("some", world().rank() == ranks() - 1 ? nullptr : link.get(), WriteMode::gather);
  run("all", link.get(), WriteMode::shared);
  expect_same_file(dir, "some/out.pth", "processors/out.pth");
  expect_same_file(dir, "all/out.pth", "processors/out.pth");
  EXPECT_EQ(devices.nccl.sent_bytes(), 0u);
}

TEST(DeviceConsolidate, MixesWithTensorsInTheProcessorsMemory) {
  const SharedDirectory dir(nothing);
  PlayedDevices devices(kDeviceBytes);
  const auto link = devices.link();
  DeviceState state(devices, world().rank());
  fill(state);
  const bool is_odd = world().rank() % 2 == 1;
  consolidate(world(), posix_file_system(), state.on_processor(), dir.path() + "/processors/out.pth",
              overwriting());
  consolidate(world(), posix_file_system(), is_odd ? state.on_processor() : state.live,
              dir.path() + "/mixed/out.pth", overwriting(), link.get());
  expect_same_file(dir, "mixed/out.pth", "processors/out.pth");
  if (is_odd) {
    EXPECT_EQ(devices.nccl.sent_bytes(), 0u);
  }
}

/// A run whose table fails on one rank: everybody's error, and the old file stays.
void expect_failure(const SharedDirectory& dir, int bad, const std::function<void(PlayedDevices&)>& arm,
                    const char* text) {
  PlayedDevices devices(kDeviceBytes);
  const auto link = devices.link();
  DeviceState state(devices, world().rank());
  fill(state);
  if (world().rank() == bad) arm(devices);
  expect_failure_of(
      bad,
      [&] {
        consolidate(world(), posix_file_system(), state.live, dir.path() + "/out.pth", overwriting(),
                    link.get());
      },
      text);
  if (dir.mine() != nullptr) {
    EXPECT_EQ(dir.mine()->read("out.pth"), "the old one");
    EXPECT_EQ(posix_file_system().list(dir.path()).size(), 1u);
  }
  barrier(world());
}

TEST(DeviceConsolidate, ACallThatFailsOnARankIsEverybodysErrorAndNobodyHangs) {
  if (ranks() == 1) return;  // nothing is sent
  const SharedDirectory dir([](const TempDir& mine) { mine.write("out.pth", "the old one"); });
  for (int bad = 0; bad < ranks(); ++bad) {
    for (const int n : {0, 1, 5}) {
      expect_failure(
          dir, bad, [&](PlayedDevices& devices) { devices.nccl.fail_call(n); }, FakeNccl::kBadText);
      expect_failure(
          dir, bad, [&](PlayedDevices& devices) { devices.nccl.fail_in_the_background(n); },
          FakeNccl::kBadText);
      expect_failure(
          dir, bad, [&](PlayedDevices& devices) { devices.cuda.fail_call(n); }, FakeCuda::kBadText);
    }
  }
}

// The disk is full while devices send: their transfers end before the ranks leave, and the link goes on.
TEST(DeviceConsolidate, ThatFailsElsewhereLeavesTheLinkWhole) {
  const SharedDirectory dir(nothing);
  PlayedDevices devices(kDeviceBytes);
  const auto link = devices.link();
  DeviceState state(devices, world().rank());
  fill(state);
  FaultyFileSystem files(posix_file_system());
  InjectedFault full{.operation = Operation::write, .path_contains = ".cairn-part", .error_number = ENOSPC};
  full.first_call = 3;
  if (world().rank() == 0) files.inject(full);
  const auto run = [&](FileSystem& on) {
    consolidate(world(), on, state.live, dir.path() + "/out.pth", overwriting(), link.get());
  };
  expect_failure_of(
      0, [&] { run(files); }, "disk full");
  run(posix_file_system());
  consolidate(world(), posix_file_system(), state.on_processor(), dir.path() + "/processors/out.pth",
              overwriting());
  expect_same_file(dir, "out.pth", "processors/out.pth");
}

}  // namespace
}  // namespace cairn
