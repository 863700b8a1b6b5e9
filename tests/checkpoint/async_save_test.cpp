// SPDX-License-Identifier: BSD-3-Clause
// Saves in the background, on one rank: with a thread that carries the messages, and by polling alone.
#include "cairn/async_save.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <deque>
#include <new>
#include <optional>
#include <thread>

#include "async_fixture.hpp"
#include "cairn/checkpoint.hpp"
#include "cairn/training.hpp"
#include "failure_of.hpp"
#include "forwarding_communicator.hpp"
#include "storage/fault.hpp"
#include "temp_dir.hpp"

namespace cairn {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

/// A world of one whose communicators are for one thread.
class PolledCommunicator final : public ForwardingCommunicator {
 public:
  PolledCommunicator() : ForwardingCommunicator(solo_communicator()) {}
  bool any_thread() const override { return false; }
  std::unique_ptr<Communicator> split(int, int) override { return duplicate(); }
  std::unique_ptr<Communicator> duplicate() override { return std::make_unique<PolledCommunicator>(); }
  std::unique_ptr<Communicator> on_node() override { return duplicate(); }
};

/// Bytes of a "device": at their addresses, noted when they are copied out.
class NotedDevice final : public DeviceMemory {
 public:
  void copy_out(const std::byte* from, std::span<std::byte> into) override {
    if (fails || --copies_left == 0) throw Error(ErrorKind::io, "the device is gone");
    std::ranges::copy(std::span(from, into.size()), into.begin());
    last_target = into.data();
  }
  void copy_in(std::span<const std::byte> bytes, std::byte* to) override { std::ranges::copy(bytes, to); }
  std::atomic<bool> fails{false};
  std::atomic<long> copies_left{0};  // the one that makes it 0 fails
  std::atomic<const std::byte*> last_target{nullptr};
};

/// Tensors of every kind that a shard treats in its own way, and objects.
class State {
 public:
  static constexpr std::int64_t kTwoPieces = 1024;  // 10 MiB
  explicit State(unsigned seed, std::int64_t large_rows = 100) {
    live.emplace(0);
    add("small", {10}, {1}, seed);
    add("large", {large_rows, 2560}, {2560, 1}, seed + 1);
    add("turned", {600, 500}, {1, 600}, seed + 2);
    add("on device", {30}, {1}, seed + 3, &device);
    add("large on device", {1024, 300}, {300, 1}, seed + 4, &device);
    add("empty", {0, 4}, {4, 1}, seed);
    live->add_object("step", static_cast<std::int64_t>(seed));
    live->add_object("blob", Object::Data{std::vector<std::byte>(2000, std::byte(seed))});
  }
  /// As a job goes on: other values, and the state itself is made anew.
  void go_on() {
    live.reset();
    for (auto& tensor : memory_) std::ranges::fill(tensor, 0xeeeeeeee);
  }

  std::optional<LiveState> live;
  NotedDevice device;

 private:
  void add(const char* name, std::vector<std::int64_t> sizes, std::vector<std::int64_t> strides,
           unsigned seed, DeviceMemory* on = nullptr) {
    const auto count = static_cast<std::size_t>(element_count(sizes));
    auto& values = memory_.emplace_back(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<std::uint32_t>(i * 2654435761u + seed);
    TensorView view{DType::int32, sizes, strides, reinterpret_cast<std::byte*>(values.data()), on};
    live->add_tensor(name, TensorLayout::replicated(sizes, 1), view);
  }

  std::deque<std::vector<std::uint32_t>> memory_;
};

class AsyncSaves : public testing::TestWithParam<bool> {
 protected:
  AsyncSaves() {
    if (GetParam())
      comm_ = std::make_unique<PolledCommunicator>();
    else
      comm_ = solo_communicator();
    options_.sync = false;
  }

  void expect_whole(const std::string& directory) {
    VerifyOptions options;
    options.path = directory;
    options.strict = true;
    const VerifyReport report = verify(*comm_, posix_file_system(), options);
    EXPECT_TRUE(report.faults.empty() && report.warnings.empty()) << directory;
  }
  /// The shards that a blocking save writes.
  Contents shards_of(unsigned seed, const SaveOptions& options) {
    const TempDir dir;
    State state(seed, State::kTwoPieces);
    save(*comm_, posix_file_system(), *state.live, dir / "c", options);
    return contents_of(dir.path(), ".distcp");
  }

  std::unique_ptr<Communicator> comm_;
  SaveOptions options_;
  TempDir dir_;
};
INSTANTIATE_TEST_SUITE_P(Carried, AsyncSaves, testing::Values(false, true),
                         [](const auto& carried) { return carried.param ? "ByPolls" : "ByTheThread"; });

TEST_P(AsyncSaves, WriteWhatTheTensorsWereWhateverTheCap) {
  for (const std::uint32_t files : {1u, 3u}) {
    options_.plan.files_per_rank = files;
    const Contents expected = shards_of(5, options_);
    ASSERT_EQ(expected.size(), files);
    for (const std::uint64_t cap : {0 * kMiB, 3 * kMiB, 9 * kMiB, 64 * kMiB}) {
      AsyncSaver saver(*comm_, posix_file_system(), {.staging_bytes = cap});
      State state(5, State::kTwoPieces);
      const std::string directory = dir_ / (std::to_string(files) + "." + std::to_string(cap));
      auto pending = saver.save(*state.live, directory, options_);
      state.go_on();
      const SaveReport report = pending.wait();
      EXPECT_TRUE(contents_of(directory, ".distcp") ==
                  [&] {
                    Contents renamed;
                    for (const auto& [name, bytes] : expected)
                      renamed[std::filesystem::path(name).filename()] = bytes;
                    return renamed;
                  }())
          << files << " files, a cap of " << cap;
      expect_whole(directory);
      EXPECT_EQ(report.path, directory);
      EXPECT_EQ(report.tensors, 6u);
      EXPECT_EQ(report.objects, 2u);
      const StagingReport& staging = pending.staging();
      EXPECT_EQ(staging.over_cap, cap < 64 * kMiB);
      EXPECT_GE(staging.staged_bytes, 12 * kMiB);
      const std::uint64_t objects = 16384, room = staging.staged_bytes - staging.drained_bytes;
      EXPECT_LE(room, std::max(cap, 2 * kMiB));
      EXPECT_EQ(staging.drained_bytes > 0, staging.over_cap);
      EXPECT_TRUE(!staging.over_cap || room + objects >= std::max(cap, 2 * kMiB));
    }
  }
}

TEST_P(AsyncSaves, UseTheSameMemoryAndPlanAgain) {
  AsyncSaver saver(*comm_, posix_file_system());
  State state(1);
  EXPECT_TRUE(saver.save(*state.live, dir_ / "a", options_).wait().planned);
  const std::byte* const first = state.device.last_target;
  EXPECT_FALSE(saver.save(*state.live, dir_ / "b", options_).wait().planned);
  EXPECT_EQ(state.device.last_target.load(), first);
  EXPECT_TRUE(contents_of(dir_ / "a", ".distcp") == contents_of(dir_ / "b", ".distcp"));
}

TEST_P(AsyncSaves, ASecondOneIsRefusedSkippedOrWaits) {
  GatedFiles files(posix_file_system());
  State state(2);
  for (const auto policy : {WhileSaving::refuse, WhileSaving::skip, WhileSaving::wait}) {
    const std::string first = dir_ / ("first" + std::to_string(static_cast<int>(policy)));
    const std::string second = dir_ / ("second" + std::to_string(static_cast<int>(policy)));
    AsyncSaver saver(*comm_, files, {.while_saving = policy});
    files.set_open(false);
    auto pending = saver.save(*state.live, first, options_);
    EXPECT_FALSE(pending.poll());
    EXPECT_EQ(pending.error(), nullptr);
    if (policy == WhileSaving::refuse) {
      const Error error = failure_of([&] { saver.save(*state.live, second, options_); });
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      EXPECT_EQ(error.step(), "beginning a save");
    } else if (policy == WhileSaving::skip) {
      auto skipped = saver.save(*state.live, second, options_);
      EXPECT_TRUE(skipped.is_skipped() && skipped.poll());
      ASSERT_NE(skipped.error(), nullptr);
      EXPECT_TRUE(contains(failure_of([&] { skipped.wait(); }), "skipped"));
    } else {
      std::thread opener([&] { files.set_open(true); });
      auto other = saver.save(*state.live, second, options_);
      EXPECT_TRUE(pending.poll());
      other.wait();
      opener.join();
      expect_whole(second);
    }
    files.set_open(true);
    EXPECT_FALSE(pending.is_skipped());
    pending.wait();
    expect_whole(first);
    EXPECT_EQ(std::filesystem::exists(second), policy == WhileSaving::wait);
  }
}

TEST_P(AsyncSaves, AreFinishedByDestruction) {
  State state(3);
  std::optional<AsyncSave> pending;
  {
    AsyncSaver saver(*comm_, posix_file_system());
    pending = saver.save(*state.live, dir_ / "c", options_);
    state.go_on();
  }
  expect_whole(dir_ / "c");
  EXPECT_TRUE(pending->poll());  // of what is gone
  EXPECT_EQ(pending->wait().tensors, 6u);
}

TEST_P(AsyncSaves, AFailingDeviceFailsThemAndLeavesNothing) {
  for (const std::uint64_t cap : {0 * kMiB, 64 * kMiB}) {
    for (const long copy : {1, 2}) {
      AsyncSaver saver(*comm_, posix_file_system(), {.staging_bytes = cap});
      State state(4);
      state.device.copies_left = copy;
      auto pending = saver.save(*state.live, dir_ / "c", options_);
      const Error error = failure_of([&] { pending.wait(); });
      EXPECT_TRUE(contains(error, "the device is gone"));
      EXPECT_EQ(error.step(), "staging the tensors");
      EXPECT_TRUE(contents_of(dir_ / "c").empty());
      saver.save(*state.live, dir_ / "c", options_).wait();
      expect_whole(dir_ / "c");
      std::filesystem::remove_all(dir_ / "c");
    }
  }
}

// Of 12 MiB in writes of a quarter of one: the call is in the middle of staging through 2.
TEST_P(AsyncSaves, AWriteThatFailsWhileTheCallStagesEndsIt) {
  FaultyFileSystem files(posix_file_system());
  AsyncSaver saver(*comm_, files, {.staging_bytes = 2 * kMiB});
  for (const std::uint64_t call : {0, 5, 20}) {
    files.inject({.operation = Operation::write,
                  .path_contains = ".distcp",
                  .first_call = call,
                  .error_number = ENOSPC});
    State state(8, State::kTwoPieces);
    auto pending = saver.save(*state.live, dir_ / "c", options_);
    state.go_on();
    EXPECT_TRUE(pending.staging().over_cap);
    EXPECT_LT(pending.staging().staged_bytes, 10 * kMiB);
    const Error error = failure_of([&] { pending.wait(); });
    EXPECT_EQ(error.step(), "writing the shards");
    EXPECT_EQ(error.kind(), ErrorKind::io);
    EXPECT_TRUE(contents_of(dir_ / "c").empty());
    files.heal();
  }
  State state(8, State::kTwoPieces);
  saver.save(*state.live, dir_ / "c", options_).wait();
  expect_whole(dir_ / "c");
}

// --- failures and kills, step by step -------------------------------------------------------------------

struct Failing {
  Operation operation;
  const char* path;
  const char* step;
};
const Failing kSteps[] = {
    {Operation::create, ".distcp", "writing the shards"},
    {Operation::allocate, ".distcp", "writing the shards"},
    {Operation::write, ".distcp", "writing the shards"},
    {Operation::sync, ".distcp", "writing the shards"},
    {Operation::close, ".distcp", "writing the shards"},
    {Operation::create, "metadata", "opening the directory"},
    {Operation::open_write, "metadata", "publishing"},
    {Operation::write, "metadata", "publishing"},
    {Operation::sync, "metadata", "publishing"},
    {Operation::rename, "metadata", "publishing"},
    {Operation::create, "manifest", "opening the directory"},
    {Operation::write, "manifest", "publishing"},
    {Operation::rename, "manifest", "publishing"},
    {Operation::list, "", "opening the directory"},
};

TEST_P(AsyncSaves, ThatFailLeaveWhatWasThere) {
  options_.sync = true;
  FaultyFileSystem files(posix_file_system());
  AsyncSaver saver(*comm_, files, {.staging_bytes = GetParam() ? kMiB : 64 * kMiB});
  State state(6);
  for (const bool overwrite : {false, true}) {
    options_.overwrite = overwrite;
    const Contents before = contents_of(dir_ / "c");
    for (const auto& [operation, path, step] : kSteps) {
      files.inject({.operation = operation, .path_contains = path, .error_number = EIO});
      const Error error = failure_of([&] { saver.save(*state.live, dir_ / "c", options_).wait(); });
      files.heal();
      EXPECT_EQ(error.kind(), ErrorKind::io) << error.what();
      EXPECT_EQ(error.step(), step) << path;
      EXPECT_TRUE(contents_of(dir_ / "c") == before) << step << " " << path;
    }
    saver.save(*state.live, dir_ / "c", options_).wait();
    expect_whole(dir_ / "c");
  }
}

TEST_P(AsyncSaves, ThatArePublishedButNotDurableSaySo) {
  options_.sync = true;
  FaultyFileSystem files(posix_file_system());
  // the first one is of the shards' names, the second one of the checkpoint's
  files.inject({.operation = Operation::sync_directory, .first_call = 1, .error_number = EIO});
  AsyncSaver saver(*comm_, files);
  State state(6);
  auto pending = saver.save(*state.live, dir_ / "c", options_);
  EXPECT_EQ(failure_of([&] { pending.wait(); }).step(), "publishing");
  expect_whole(dir_ / "c");
}

// As in a cache of downloads, where links lead to files that other checkpoints have, too.
TEST_P(AsyncSaves, AreNotMadeThroughLinksInTheDirectory) {
  options_.overwrite = true;
  const auto saves_to = [&](const char* name) {
    State state(6);
    AsyncSaver(*comm_, posix_file_system()).save(*state.live, dir_ / name, options_).wait();
  };
  saves_to("old");
  for (const char* const name : {".metadata", "cairn.manifest"}) {
    std::filesystem::rename(dir_ / (std::string("old/") + name), dir_ / "blob");
    std::filesystem::create_symlink("../blob", dir_ / (std::string("old/") + name));
    const std::string blob = dir_.read("blob");
    const Error error = failure_of([&] { saves_to("old"); });
    EXPECT_EQ(error.kind(), ErrorKind::already_exists);
    EXPECT_TRUE(contains(error, std::string(name) + ": is a link")) << error.what();
    EXPECT_TRUE(dir_.read("blob") == blob);
    std::filesystem::rename(dir_ / "blob", dir_ / (std::string("old/") + name));
  }
  std::filesystem::create_directory_symlink("old", dir_ / "link");
  saves_to("link");  // that is asked for
  expect_whole(dir_ / "old");
}

/// There is no memory when a directory is to be made durable, from call number `first` on.
class LackingFiles final : public ForwardingFileSystem {
 public:
  explicit LackingFiles(int first) : ForwardingFileSystem(posix_file_system()), left_(first) {}
  void sync_directory(const std::string& path) override {
    if (left_-- <= 0) throw std::bad_alloc();
    ForwardingFileSystem::sync_directory(path);
  }

 private:
  std::atomic<int> left_;
};

TEST_P(AsyncSaves, ThatArePublishedStayWhenMemoryIsLackingAfterwards) {
  options_.sync = true;
  for (const bool in_background : {true, false}) {
    for (const int first : {0, 1}) {  // of the shards' names, of the checkpoint's
      const std::string directory = dir_ / (std::to_string(first) + (in_background ? "async" : "sync"));
      std::filesystem::create_directory(directory);
      LackingFiles files(first);
      State state(6);
      const Error error = failure_of([&] {
        if (in_background)
          AsyncSaver(*comm_, files).save(*state.live, directory, options_).wait();
        else
          save(*comm_, files, *state.live, directory, options_);
      });
      EXPECT_TRUE(contains(error, "out of memory")) << error.what();
      EXPECT_EQ(error.step(), "publishing");
      EXPECT_EQ(contents_of(directory).empty(), first == 0);
      if (first == 1) expect_whole(directory);
    }
  }
}

// --- iterations ------------------------------------------------------------------------------------------

struct Job {
  State model, optim;
  explicit Job(unsigned iteration) : model(iteration), optim(iteration + 100) {}
  std::vector<SavedComponent> saved() const { return {{"model", *model.live}, {"optim", *optim.live}}; }
};

class AsyncIterations : public AsyncSaves {
 protected:
  AsyncIterations() { training_.save.sync = false; }

  std::int64_t latest() {
    return find_latest(*comm_, posix_file_system(), root(), true).iteration.value_or(-1);
  }
  std::string root() { return dir_ / "checkpoints"; }
  void save(unsigned iteration) {
    Job job(iteration);
    TrainingCheckpoints(*comm_, posix_file_system(), root(), training_).save(iteration, job.saved());
  }

  TrainingOptions training_;
};
INSTANTIATE_TEST_SUITE_P(Carried, AsyncIterations, testing::Values(false, true),
                         [](const auto& carried) { return carried.param ? "ByPolls" : "ByTheThread"; });

TEST_P(AsyncIterations, AreThoseOfBlockingSaves) {
  training_.retention.keep_last = 2;
  for (const std::uint64_t cap : {kMiB, 64 * kMiB}) {
    training_.async.staging_bytes = cap;
    TrainingCheckpoints checkpoints(*comm_, posix_file_system(), root(), training_);
    std::optional<AsyncIteration> pending;
    for (const unsigned iteration : {10u, 20u, 30u}) {
      Job job(iteration);
      pending = checkpoints.start_save(iteration, job.saved());  // waits for the one before
      job.model.go_on();
      job.optim.go_on();
    }
    const IterationReport report = pending->wait();
    EXPECT_EQ(pending->staging().over_cap, cap == kMiB);
    EXPECT_EQ(pending->staging().drained_bytes > 0, cap == kMiB);
    EXPECT_EQ(report.path, root() + "/iter_000000030");
    EXPECT_EQ(report.removed, std::vector<std::string>{root() + "/iter_000000010"});
    ASSERT_EQ(report.components.size(), 2u);
    EXPECT_EQ(report.components[1].first, "optim");
    EXPECT_EQ(report.components[1].second.path, root() + "/iter_000000030/optim");
    EXPECT_EQ(report.components[1].second.tensors, 6u);
    EXPECT_FALSE(report.components[0].second.planned);
    EXPECT_EQ(latest(), 30);
    Job job(30);
    checkpoints.save(40, job.saved());
    EXPECT_TRUE(contents_of(root() + "/iter_000000030", ".distcp") ==
                contents_of(root() + "/iter_000000040", ".distcp"));
    std::filesystem::remove_all(root());
  }
}

TEST_P(AsyncIterations, OtherCallsWaitForThem) {
  GatedFiles files(posix_file_system());
  TrainingCheckpoints checkpoints(*comm_, files, root(), training_);
  Job job(1);
  for (const bool resumes : {false, true}) {
    files.set_open(false);
    auto pending = checkpoints.start_save(resumes ? 30 : 10, job.saved());
    EXPECT_FALSE(pending.poll());
    std::thread opener([&] { files.set_open(true); });
    if (resumes) {
      LiveState wanted(0);
      std::vector<std::uint32_t> small(10);
      wanted.add_tensor("small", TensorLayout::replicated({10}, 1),
                        TensorView::contiguous(DType::int32, {10}, small.data()));
      ResumeOptions options;
      options.load.plan.strict = false;
      EXPECT_EQ(checkpoints.resume({{"model", wanted}}, options).iteration, 30);
      EXPECT_EQ(small[1], 2654435761u + 1);
    } else {
      EXPECT_EQ(checkpoints.save(20, job.saved()).components.size(), 2u);
    }
    EXPECT_TRUE(pending.poll());
    opener.join();
  }
}

TEST_P(AsyncIterations, ThatFailLeaveIterationsAndPointer) {
  training_.save.sync = true;
  save(10);
  const Contents before = contents_of(root());
  FaultyFileSystem files(posix_file_system());
  TrainingCheckpoints checkpoints(*comm_, files, root(), training_);
  Job job(20);
  for (const auto& [operation, path, step] :
       {Failing{Operation::write, "model/__0_0", "writing the shards"},
        Failing{Operation::sync, "optim/__0_0", "writing the shards"},
        Failing{Operation::rename, "optim/.metadata", "publishing the iteration"},
        Failing{Operation::write, "latest", "publishing the iteration"},
        Failing{Operation::rename, "iter_000000020", "publishing the iteration"},
        Failing{Operation::rename, "latest", "publishing the iteration"},
        Failing{Operation::create, "optim/..metadata", "opening the directory"}}) {
    files.inject({.operation = operation, .path_contains = path, .call_count = 1, .error_number = EIO});
    const Error error = failure_of([&] { checkpoints.start_save(20, job.saved()).wait(); });
    files.heal();
    EXPECT_EQ(error.step(), step) << path << ": " << error.what();
    EXPECT_TRUE(contents_of(root()) == before) << path;
  }
  checkpoints.start_save(20, job.saved()).wait();
  EXPECT_EQ(latest(), 20);
}

// In a process of its own, which a fault ends as `kill -9` does.
void save_killed(const std::string& root, const TrainingOptions& options, const Failing& step) {
  const pid_t child = fork();
  if (child == 0) {
    FaultyFileSystem files(posix_file_system());
    files.inject({.operation = step.operation, .path_contains = step.path, .kill = true});
    const auto comm = solo_communicator();
    TrainingCheckpoints checkpoints(*comm, files, root, options);
    Job job(20);
    checkpoints.start_save(20, job.saved()).wait();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "not killed: " << step.path;
}

TEST_P(AsyncIterations, AKillInFlightLeavesTheLatestOne) {
  if (GetParam()) return;  // there is nothing to poll after a kill
  training_.save.sync = true;
  for (const auto& step :
       {Failing{Operation::write, "model/__0_0", ""}, Failing{Operation::sync, "optim/__0_0", ""},
        Failing{Operation::write, "optim/..metadata", ""}, Failing{Operation::rename, "optim/.metadata", ""},
        Failing{Operation::rename, "iter_000000020", ""}, Failing{Operation::rename, "latest", ""}}) {
    save(10);
    save_killed(root(), training_, step);
    const bool is_there = std::string(step.path) == "latest";
    EXPECT_EQ(latest(), is_there ? 20 : 10) << step.path;
    TrainingCheckpoints checkpoints(*comm_, posix_file_system(), root(), training_);
    Job job(30);
    checkpoints.start_save(30, job.saved()).wait();
    EXPECT_EQ(latest(), 30);
    std::filesystem::remove_all(root());
  }
}

}  // namespace
}  // namespace cairn
