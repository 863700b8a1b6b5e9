// SPDX-License-Identifier: BSD-3-Clause
// Saves in the background on all ranks, at each thread level of MPI (CAIRN_TEST_THREADS): what arrives, what
// a failure of any rank leaves, and that a rank that polls waits for nobody.
#include "cairn/async_save.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string_view>

#include "async_fixture.hpp"
#include "base/sha256.hpp"
#include "cairn/checkpoint.hpp"
#include "cairn/load.hpp"
#include "cairn/training.hpp"
#include "checkpoint/process_memory.hpp"
#include "expect_whole.hpp"
#include "failure_of.hpp"
#include "iota_state.hpp"
#include "shared_directory.hpp"
#include "storage/fault.hpp"
#include "world.hpp"

namespace cairn {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

void nothing(const TempDir&) {}

std::optional<IotaState> filled(std::uint64_t seed) {
  const int ranks = world().size();
  std::optional<IotaState> state(std::in_place, world().rank());
  state->add("rows", DType::float32, TensorLayout::sharded({40, 7}, 0, ranks), seed);
  state->add("large", DType::float64, TensorLayout::sharded({ranks, 150'000}, 0, ranks), seed + 1);
  state->add("whole", DType::int16, TensorLayout::replicated({50, 50}, ranks), seed + 2);
  state->live.add_object("step", static_cast<std::int64_t>(seed));
  state->live.add_rank_object("loader", world().rank());
  return state;
}

void overwrite(IotaState& state) {
  const RankState& known = state.live.description();
  for (std::size_t entry = 0; entry < known.size(); ++entry)
    for (std::size_t box = 0; known.is_tensor(entry) && box < known.box_count(entry); ++box) {
      const TensorView& view = state.live.view(entry, box);
      std::fill_n(view.data, view.byte_count(), std::byte{0xee});
    }
}

// The digests of a directory's files; rank 0 looks, and all ranks learn them.
std::string digests(const std::string& directory, const std::string& ending = "") {
  Bytes text;
  if (world().rank() == 0) {
    std::string words;
    for (const auto& [name, bytes] : contents_of(directory, ending)) {
      Sha256 digest;
      digest.add(as_bytes(bytes));
      words += name + ":" + digest.hex() + "\n";
    }
    text.assign(as_bytes(words).begin(), as_bytes(words).end());
  }
  world().broadcast(text, 0);
  return std::string(as_text(text));
}

SaveOptions unsynced() {
  SaveOptions options;
  options.sync = false;
  return options;
}

bool has_any_thread() {
  const char* const level = std::getenv("CAIRN_TEST_THREADS");
  return level != nullptr && std::string_view(level) == "multiple";
}

TEST(AsyncSave, RunsAtTheLevelThatIsTested) { EXPECT_EQ(world().any_thread(), has_any_thread()); }

TEST(AsyncSave, WritesWhatTheTensorsWere) {
  const SharedDirectory dir(nothing);
  auto state = filled(7);
  save(world(), posix_file_system(), state->live, dir.path() + "/sync", unsynced());
  for (const std::uint64_t cap : {0 * kMiB, 1 * kMiB, 64 * kMiB}) {
    AsyncSaver saver(world(), posix_file_system(), {.staging_bytes = cap});
    for (int turn = 0; turn < 2; ++turn) {
      const std::string directory = dir.path() + "/" + std::to_string(cap) + "." + std::to_string(turn);
      state = filled(7);
      auto pending = saver.save(state->live, directory, unsynced());
      overwrite(*state);
      state.reset();
      const SaveReport report = pending.wait();
      EXPECT_EQ(report.planned, turn == 0);
      EXPECT_EQ(report.objects, 1u + static_cast<unsigned>(world().size()));
      EXPECT_GT(report.peak_rss_bytes, 0u);
      EXPECT_EQ(digests(directory, ".distcp"), digests(dir.path() + "/sync", ".distcp"));
      expect_whole(directory);
    }
  }
}

// --- states larger than the cap -------------------------------------------------------------------------

constexpr std::uint64_t kCap = 2 * kMiB;

/// Of each rank so many bytes: about a quarter are small tensors, the rest is one.
std::optional<IotaState> sized(std::uint64_t bytes, std::uint64_t seed) {
  const int ranks = world().size();
  constexpr std::int64_t kSmall = 64 << 10;
  const auto all = static_cast<std::int64_t>(bytes), small = all / 4 / kSmall;
  std::optional<IotaState> state(std::in_place, world().rank());
  const auto add = [&](const std::string& name, std::int64_t size) {
    state->add(name, DType::uint8, TensorLayout::sharded({ranks * size}, 0, ranks), seed);
  };
  add("large", all - small * kSmall);
  for (std::int64_t i = 0; i < small; ++i) add("small." + std::to_string(i), kSmall);
  return state;
}

TEST(AsyncSaveOverTheCap, PassesThroughItsMemory) {
  const SharedDirectory dir(nothing);
  AsyncSaver saver(world(), posix_file_system(), {.staging_bytes = kCap});
  int turn = 0;
  for (const std::uint64_t bytes : {kCap, 2 * kCap, 5 * kCap + kCap * 5 / 16}) {  // 5.3 of it
    const std::string directory = dir.path() + "/" + std::to_string(turn++);
    auto state = sized(bytes, 7);
    save(world(), posix_file_system(), state->live, directory + ".sync", unsynced());
    auto pending = saver.save(state->live, directory, unsynced());
    overwrite(*state);
    state.reset();
    EXPECT_EQ(pending.staging().over_cap, bytes > kCap);
    EXPECT_EQ(pending.staging().staged_bytes, bytes);
    EXPECT_EQ(pending.staging().drained_bytes, bytes - kCap);
    pending.wait();
    EXPECT_EQ(digests(directory, ".distcp"), digests(directory + ".sync", ".distcp"));
    expect_whole(directory);
  }
}

// Ranks differ: some have all in memory before anything is written, others wait for the disk.
TEST(AsyncSaveOverTheCap, OfSomeRanksOnly) {
  const SharedDirectory dir(nothing);
  const bool is_small = world().rank() % 2 == 1;
  AsyncSaver saver(world(), posix_file_system(), {.staging_bytes = is_small ? kCap : 4 * kCap});
  auto state = sized(3 * kCap, 8);
  save(world(), posix_file_system(), state->live, dir.path() + "/sync", unsynced());
  auto pending = saver.save(state->live, dir.path() + "/c", unsynced());
  overwrite(*state);
  EXPECT_EQ(pending.staging().over_cap, is_small);
  pending.wait();
  EXPECT_EQ(digests(dir.path() + "/c", ".distcp"), digests(dir.path() + "/sync", ".distcp"));
}

TEST(AsyncSaveOverTheCap, TakesNoMoreMemoryThanTheCapAllows) {
  constexpr std::uint64_t kBytes = 48 * kMiB, kLargeCap = 8 * kMiB, kBeside = 16 * kMiB;
  const SharedDirectory dir(nothing);
  auto state = sized(kBytes, 9);
  AsyncSaver saver(world(), posix_file_system(), {.staging_bytes = kLargeCap});
  for (int turn = 0; turn < 2; ++turn) {            // the second one takes none
    std::ofstream("/proc/self/clear_refs") << "5";  // the peak is what is there
    const std::uint64_t before = peak_rss_bytes();
    saver.save(state->live, dir.path() + "/" + std::to_string(turn), unsynced()).wait();
    EXPECT_LE(peak_rss_bytes(), before + kBeside + (turn == 0 ? kLargeCap : 0));
  }
  expect_whole(dir.path() + "/1");
}

// The program's own collectives are between the polls, and one rank polls seldom.
TEST(AsyncSave, GoesOnByPollsBetweenTheProgramsCollectives) {
  const SharedDirectory dir(nothing);
  AsyncSaver saver(world(), posix_file_system());
  auto state = filled(1);
  auto pending = saver.save(state->live, dir.path() + "/c", unsynced());
  bool all = false;
  for (int turn = 0; !all; ++turn) {
    bool done = false;
    if (turn % (world().rank() + 1) == 0) done = pending.poll();
    all = agree(world(), done ? 0 : 1) == 0;
  }
  EXPECT_EQ(pending.error(), nullptr);
  EXPECT_EQ(pending.wait().tensors, 3u);
  expect_whole(dir.path() + "/c");
}

// With a thread of its own a save ends although no rank polls: rank 0 sees that, the others wait in a
// collective of the program's.
TEST(AsyncSave, EndsByItselfWhereAnyThreadMayCommunicate) {
  if (!world().any_thread()) return;
  const SharedDirectory dir(nothing);
  AsyncSaver saver(world(), posix_file_system());
  auto state = filled(1);
  auto pending = saver.save(state->live, dir.path() + "/c", unsynced());
  if (world().rank() == 0) pending.wait();
  barrier(world());
  pending.wait();
  expect_whole(dir.path() + "/c");
}

TEST(AsyncSave, IsRefusedOrSkippedOnAllRanksWhenOneIsBusy) {
  const SharedDirectory dir(nothing);
  auto state = filled(2);
  GatedFiles gated(posix_file_system());
  for (const auto policy : {WhileSaving::refuse, WhileSaving::skip}) {
    const std::string directory = dir.path() + "/" + std::to_string(static_cast<int>(policy));
    const bool is_last = world().rank() == world().size() - 1;
    AsyncSaver saver(world(), gated, {.while_saving = policy});
    if (is_last) gated.set_open(false);
    auto pending = saver.save(state->live, directory, unsynced());
    if (policy == WhileSaving::refuse) {
      const Error error = failure_of([&] { saver.save(state->live, directory + "b", unsynced()); });
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      EXPECT_EQ(error.failures().size(), static_cast<std::size_t>(world().size()));
    } else {
      EXPECT_TRUE(saver.save(state->live, directory + "b", unsynced()).is_skipped());
    }
    gated.set_open(true);
    pending.wait();
    expect_whole(directory);
    EXPECT_EQ(digests(directory + "b"), "");
  }
  if (world().size() == 1) return;
  const auto policy = world().rank() == 0 ? WhileSaving::skip : WhileSaving::wait;
  EXPECT_EQ(failure_of([&] { AsyncSaver(world(), gated, {.while_saving = policy}); }).kind(),
            ErrorKind::invalid_argument);
}

TEST(AsyncSave, IsFinishedByDestruction) {
  const SharedDirectory dir(nothing);
  auto state = filled(3);
  std::optional<cairn::AsyncSave> pending;
  {
    AsyncSaver saver(world(), posix_file_system());
    pending = saver.save(state->live, dir.path() + "/c", unsynced());
    state.reset();
  }
  EXPECT_TRUE(pending->poll());
  expect_whole(dir.path() + "/c");
}

// --- failures: each step, each rank ---------------------------------------------------------------------

struct Failing {
  Operation operation;
  const char* path;
};
const Failing kSteps[] = {
    {Operation::create, ".distcp"},  {Operation::write, ".distcp"},   {Operation::sync, ".distcp"},
    {Operation::close, ".distcp"},   {Operation::create, "metadata"}, {Operation::open_write, "metadata"},
    {Operation::sync, "metadata"},   {Operation::rename, "metadata"}, {Operation::rename, "manifest"},
    {Operation::sync_directory, ""},
};

// The same on all ranks, or none.
std::optional<Error> failure_on_all(const std::function<void()>& body) {
  std::optional<Error> error;
  try {
    body();
  } catch (const Error& thrown) {
    error = thrown;
  }
  Bytes said;
  const std::string mine = error ? error->step() + error->what() : "";
  if (world().rank() == 0) said.assign(as_bytes(mine).begin(), as_bytes(mine).end());
  world().broadcast(said, 0);
  EXPECT_EQ(mine, as_text(said));
  return error;
}

TEST(AsyncSaveFailures, AreTheSameOnAllRanksAndLeaveWhatWasThere) {
  const SharedDirectory dir(nothing);
  FaultyFileSystem files(posix_file_system());
  AsyncSaver saver(world(), files);
  auto state = filled(4);
  SaveOptions options;
  for (const bool overwrite : {false, true}) {
    options.overwrite = overwrite;
    const std::string before = digests(dir.path() + "/c");
    for (const auto& [operation, path] : kSteps) {
      for (int rank = 0; rank < world().size(); ++rank) {
        if (world().rank() == rank)
          files.inject({.operation = operation, .path_contains = path, .call_count = 1, .error_number = EIO});
        const bool may_pass = rank > 0 && std::string_view(path) != ".distcp";  // it does not come there
        if (may_pass) {
          files.heal();
          continue;
        }
        const auto error =
            failure_on_all([&] { saver.save(state->live, dir.path() + "/c", options).wait(); });
        files.heal();
        ASSERT_TRUE(agree(world(), error ? 0 : 1) == 0) << path;
        EXPECT_EQ(error->kind(), ErrorKind::io);
        ASSERT_EQ(error->failures().size(), 1u) << error->what();
        EXPECT_EQ(error->failures()[0].rank, rank);
        EXPECT_EQ(digests(dir.path() + "/c"), before) << path << " on rank " << rank;
      }
    }
    EXPECT_FALSE(failure_on_all([&] { saver.save(state->live, dir.path() + "/c", options).wait(); }));
    expect_whole(dir.path() + "/c");
  }
}

TEST(AsyncSaveFailures, OfSeveralRanksAreAllTold) {
  const SharedDirectory dir(nothing);
  FaultyFileSystem files(posix_file_system());
  files.inject({.operation = Operation::write, .path_contains = ".distcp", .error_number = EIO});
  AsyncSaver saver(world(), files);
  auto state = filled(4);
  const auto error = failure_on_all([&] { saver.save(state->live, dir.path() + "/c", unsynced()).wait(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->step(), "writing the shards");
  EXPECT_EQ(error->failures().size(), static_cast<std::size_t>(world().size()));
  EXPECT_EQ(digests(dir.path() + "/c"), "");
}

// In the middle of staging, a write here, and the making of the file: the others are at any point of it.
TEST(AsyncSaveFailures, WhileTheStateIsStagedAreTheSameOnAllRanks) {
  const SharedDirectory dir(nothing);
  FaultyFileSystem files(posix_file_system());
  AsyncSaver saver(world(), files, {.staging_bytes = kCap});
  for (int rank = 0; rank < world().size(); ++rank) {
    for (const Operation operation : {Operation::write, Operation::create, Operation::sync}) {
      InjectedFault fault{.operation = operation, .path_contains = ".distcp", .error_number = ENOSPC};
      if (operation == Operation::write) fault.first_call = 16;
      if (world().rank() == rank) files.inject(fault);
      const auto error = failure_on_all([&] {
        auto state = sized(5 * kCap, 4);
        auto pending = saver.save(state->live, dir.path() + "/c");
        overwrite(*state);
        state.reset();
        EXPECT_TRUE(pending.staging().over_cap);
        const bool is_cut_off = world().rank() == rank && operation != Operation::sync;
        EXPECT_TRUE(!is_cut_off || pending.staging().staged_bytes < 5 * kCap);
        pending.wait();
      });
      files.heal();
      ASSERT_EQ(agree(world(), error ? 0 : 1), 0u);
      EXPECT_EQ(error->step(), "writing the shards");
      ASSERT_EQ(error->failures().size(), 1u) << error->what();
      EXPECT_EQ(error->failures()[0].rank, rank);
      EXPECT_EQ(digests(dir.path() + "/c"), "");
    }
  }
  auto state = sized(5 * kCap, 4);
  EXPECT_FALSE(failure_on_all([&] { saver.save(state->live, dir.path() + "/c").wait(); }));
  expect_whole(dir.path() + "/c");
}

// --- iterations -----------------------------------------------------------------------------------------

TEST(AsyncIterations, AreResumedFrom) {
  const SharedDirectory dir(nothing);
  TrainingOptions options;
  options.save = unsynced();
  options.retention.keep_last = 2;
  TrainingCheckpoints checkpoints(world(), posix_file_system(), dir.path(), options);
  for (const int iteration : {10, 20, 30}) {
    auto model = filled(static_cast<std::uint64_t>(iteration)), optim = filled(99);
    checkpoints.start_save(iteration, {{"model", model->live}, {"optim", optim->live}});
    overwrite(*model);
  }
  auto model = filled(0);
  const auto resumed = checkpoints.resume({{"model", model->live}});
  EXPECT_EQ(resumed.iteration, 30);
  EXPECT_TRUE(resumed.skipped.empty());
  for (std::size_t entry = 0; entry < 3; ++entry) EXPECT_EQ(model->wrong_bytes(entry, 30 + entry), 0u);
  EXPECT_EQ(find_latest(world(), posix_file_system(), dir.path(), true).iteration, 30);
  EXPECT_EQ(digests(dir.path() + "/iter_000000010"), "");
}

TEST(AsyncIterations, ThatFailOnAnyRankLeaveNothing) {
  const SharedDirectory dir(nothing);
  FaultyFileSystem files(posix_file_system());
  TrainingCheckpoints checkpoints(world(), files, dir.path());
  auto model = filled(1), optim = filled(2);
  const std::vector<SavedComponent> components{{"model", model->live}, {"optim", optim->live}};
  checkpoints.start_save(1, components).wait();
  const std::string before = digests(dir.path());
  const auto attempt = [&](int rank, const Failing& step) {
    if (world().rank() == rank)
      files.inject({.operation = step.operation, .path_contains = step.path, .error_number = EIO});
    const auto error = failure_on_all([&] { checkpoints.start_save(2, components).wait(); });
    files.heal();
    EXPECT_TRUE(error && error->failures()[0].rank == rank) << step.path;
    EXPECT_EQ(digests(dir.path()), before) << step.path;
  };
  for (int rank = 0; rank < world().size(); ++rank) attempt(rank, {Operation::sync, "optim/__"});
  attempt(0, {Operation::rename, "optim/.metadata"});
  attempt(0, {Operation::rename, "latest"});
  EXPECT_FALSE(failure_on_all([&] { checkpoints.start_save(2, components).wait(); }));
  EXPECT_EQ(find_latest(world(), posix_file_system(), dir.path(), true).iteration, 2);
}

}  // namespace
}  // namespace cairn
