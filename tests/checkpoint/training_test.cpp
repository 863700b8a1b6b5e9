// SPDX-License-Identifier: BSD-3-Clause
// Training trees on one rank: the latest iteration, retention, saves and resumes, failures and kills.
#include "cairn/training.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <set>
#include <thread>

#include "cairn/checkpoint.hpp"
#include "cairn/convert.hpp"
#include "checkpoint/retention.hpp"
#include "failure_of.hpp"
#include "storage/atomic_output.hpp"
#include "storage/fault.hpp"
#include "storage/forwarding.hpp"
#include "storage/read_pin.hpp"
#include "training_fixture.hpp"

namespace cairn {
namespace {

using Paths = std::vector<std::string>;
using Names = std::set<std::string>;

constexpr Operation kChanging[] = {
    Operation::create,          Operation::open_write, Operation::make_directories,
    Operation::rename,          Operation::unlink,     Operation::sync_directory,
    Operation::write,           Operation::sync,       Operation::close,
    Operation::remove_directory};

std::vector<std::string> paths_of(const std::vector<PassedIteration>& passed) {
  Paths paths;
  for (const auto& one : passed) paths.push_back(one.path);
  return paths;
}

class Training : public testing::Test {
 protected:
  std::string at(int number) { return dir_ / iteration_folder(number); }
  Paths all_at(std::initializer_list<int> numbers) {
    Paths paths;
    for (const int number : numbers) paths.push_back(at(number));
    return paths;
  }
  LatestReport latest(bool verify = false) {
    return find_latest(*solo_, posix_file_system(), dir_.path(), verify);
  }
  PruneReport pruned(const RetentionRule& rule, bool dry_run = false) {
    return prune(posix_file_system(), dir_.path(), rule, dry_run);
  }
  Names names() {
    Names found;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path()))
      found.insert(entry.path().filename());
    return found;
  }
  Names names_of(std::initializer_list<int> numbers, std::initializer_list<const char*> others = {}) {
    Names wanted(others.begin(), others.end());
    for (const int number : numbers) wanted.insert(iteration_folder(number));
    return wanted;
  }

  TempDir dir_;
  std::unique_ptr<Communicator> solo_ = solo_communicator();
};

// --- the latest -----------------------------------------------------------------------------------------

TEST_F(Training, TheLatestIsTheNewestCompleteOneAndTheOthersAreSaid) {
  for (const int number : {10, 20, 30, 40}) write_iteration(dir_, number);
  write_pointer(dir_, iteration_folder(40));
  EXPECT_EQ(latest().path, at(40));
  EXPECT_EQ(latest().iteration, 40);
  EXPECT_EQ(latest().components, (Paths{"model", "optim", "trainer"}));
  EXPECT_TRUE(latest().skipped.empty() && latest().warnings.empty());

  std::filesystem::remove(at(40) + "/model/.metadata");
  cut_by_one_byte(at(30) + "/optim/__0_0.distcp");
  const auto report = latest();
  EXPECT_EQ(report.path, at(20));
  EXPECT_EQ(paths_of(report.skipped), all_at({40, 30}));
  EXPECT_NE(report.skipped[0].reason.find("no .metadata"), std::string::npos);
  EXPECT_TRUE(report.warnings.empty());
}

TEST_F(Training, WhatThePointerSaysBesideTheTruthIsAWarning) {
  for (const int number : {10, 20}) write_iteration(dir_, number);
  const auto warning = [&] {
    const auto report = latest();
    EXPECT_EQ(report.path, at(20));
    return report.warnings.size() == 1 ? report.warnings[0] : std::string();
  };
  EXPECT_NE(warning().find("no pointer"), std::string::npos);
  write_pointer(dir_, iteration_folder(10));
  EXPECT_NE(warning().find("older"), std::string::npos);
  write_pointer(dir_, iteration_folder(30));
  EXPECT_NE(warning().find("not there"), std::string::npos);
  write_pointer(dir_, "\r\n");
  EXPECT_NE(warning().find("names no directory"), std::string::npos);
  write_pointer(dir_, iteration_folder(20) + "\r\n");
  EXPECT_EQ(warning(), "");
}

TEST_F(Training, WithoutACompleteOneThereIsNone) {
  write_iteration(dir_, 10);
  std::filesystem::create_directory(at(20));
  std::filesystem::remove(at(10) + "/model/__0_0.distcp");
  const auto report = latest();
  EXPECT_EQ(report.path, "");
  EXPECT_EQ(paths_of(report.skipped), all_at({20, 10}));
}

TEST_F(Training, DamageOfThePayloadIsFoundWhenItIsLookedFor) {
  for (const int number : {10, 20, 30}) write_iteration(dir_, number);
  for (const int number : {20, 30}) {
    std::string shard = dir_.read(iteration_folder(number) + "/optim/__1_0.distcp");
    shard[shard.size() / 2] ^= 1;
    dir_.write(iteration_folder(number) + "/optim/__1_0.distcp", shard);
  }
  write_pointer(dir_, iteration_folder(30));
  EXPECT_EQ(latest().path, at(30));
  EXPECT_EQ(latest(true).path, at(10));
  EXPECT_EQ(paths_of(latest(true).skipped), all_at({30, 20}));
}

TEST_F(Training, TheNumberOfOlderIterationsDoesNotMatter) {
  const auto files_opened = [&] {
    FaultyFileSystem files(posix_file_system());
    find_latest(*solo_, files, dir_.path());
    return std::pair(files.count(Operation::open_read).calls, files.count(Operation::list).calls);
  };
  for (const int number : {1000, 1001, 1002}) write_iteration(dir_, number);
  write_pointer(dir_, iteration_folder(1002));
  const auto few = files_opened();
  for (int number = 0; number < 30; ++number) {
    std::filesystem::copy(at(1000), at(number), std::filesystem::copy_options::recursive);
  }
  EXPECT_EQ(files_opened(), few);
}

TEST_F(Training, ATreeThatCannotBeListedIsNoEmptyOne) {
  write_iteration(dir_, 10);
  FaultyFileSystem files(posix_file_system());
  files.inject({.operation = Operation::list, .call_count = 1, .error_number = EIO});
  EXPECT_EQ(failure_of([&] { find_latest(*solo_, files, dir_.path()); }).kind(), ErrorKind::io);
  files.inject({.operation = Operation::list, .error_number = EACCES});
  EXPECT_EQ(failure_of([&] { prune(files, dir_.path(), {1, 0}); }).kind(), ErrorKind::io);
}

// --- retention ------------------------------------------------------------------------------------------

TEST_F(Training, PruningKeepsTheNewestAndEveryKthAndThePointedOne) {
  for (const int number : {10, 20, 30, 40, 50, 60}) write_iteration(dir_, number);
  write_pointer(dir_, iteration_folder(20));
  const RetentionRule rule{2, 30};
  const auto tried = pruned(rule, true);
  EXPECT_EQ(tried.removed, all_at({40, 10}));
  EXPECT_EQ(tried.kept, all_at({60, 50, 30, 20}));
  EXPECT_EQ(names(), names_of({10, 20, 30, 40, 50, 60}, {"latest_checkpoint.txt"}));
  EXPECT_EQ(pruned(rule).removed, tried.removed);
  EXPECT_EQ(names(), names_of({20, 30, 50, 60}, {"latest_checkpoint.txt"}));
  EXPECT_TRUE(pruned(rule).removed.empty());
  EXPECT_EQ(failure_of([&] { pruned({0, 5}); }).kind(), ErrorKind::invalid_argument);
}

TEST_F(Training, BrokenIterationsDoNotCountAndStay) {
  for (const int number : {10, 20, 30, 40}) write_iteration(dir_, number);
  std::filesystem::remove(at(40) + "/model/.metadata");
  std::filesystem::remove(at(20) + "/optim/__0_0.distcp");
  const auto report = pruned({1, 0});
  EXPECT_EQ(report.kept, all_at({30}));
  EXPECT_EQ(report.removed, all_at({10}));
  EXPECT_EQ(paths_of(report.broken), all_at({40, 20}));
  EXPECT_EQ(names(), names_of({20, 30, 40}));
}

TEST_F(Training, TheLastCompleteIterationIsNeverRemoved) {
  for (const int number : {10, 20, 30}) write_iteration(dir_, number);
  for (const int number : {20, 30}) std::filesystem::remove_all(at(number) + "/trainer/.metadata");
  EXPECT_TRUE(pruned({1, 0}).removed.empty());
  EXPECT_EQ(latest().path, at(10));
}

TEST_F(Training, AnIterationThatSomebodyReadsStays) {
  for (const int number : {10, 20, 30}) write_iteration(dir_, number);
  {
    const ReadPin pin = ReadPin::take(posix_file_system(), at(10) + "/optim/.metadata");
    const auto report = pruned({1, 0});
    EXPECT_EQ(report.removed, all_at({20}));
    EXPECT_EQ(paths_of(report.in_use), all_at({10}));
    EXPECT_EQ(names(), names_of({10, 30}));
  }
  EXPECT_EQ(pruned({1, 0}).removed, all_at({10}));
}

/// Whoever opens a shard has the `.metadata` beside it pinned.
class PinnedFileSystem final : public ForwardingFileSystem {
 public:
  PinnedFileSystem() : ForwardingFileSystem(posix_file_system()) {}
  std::unique_ptr<File> open_read(const std::string& path) override {
    if (path.ends_with(".distcp")) {
      const std::string metadata = path.substr(0, path.rfind('/')) + "/.metadata";
      EXPECT_EQ(exclusive_lock(inner_, metadata), nullptr) << path;
      ++shards;
    }
    return inner_.open_read(path);
  }
  std::atomic<int> shards = 0;
};

TEST_F(Training, WhoReadsACheckpointHasItPinned) {
  const std::string iteration = write_iteration(dir_, 10), model = iteration + "/model";
  const auto expect_pinned = [&](auto&& read) {
    PinnedFileSystem files;
    read(files);
    EXPECT_GT(files.shards, 0);
    EXPECT_NE(exclusive_lock(posix_file_system(), model + "/.metadata"), nullptr);
  };
  expect_pinned([&](FileSystem& files) { load_all(*solo_, files, model); });
  expect_pinned([&](FileSystem& files) {
    VerifyOptions options;
    options.path = iteration;
    EXPECT_TRUE(verify(*solo_, files, options).faults.empty());
  });
  expect_pinned([&](FileSystem& files) {
    ConsolidateOptions options;
    options.source = model;
    options.destination = dir_ / "model.pth";
    consolidate(*solo_, files, options);
  });
  expect_pinned([&](FileSystem& files) {
    ConvertOptions options;
    options.source = model;
    options.destination = dir_ / "resharded";
    reshard(*solo_, files, options);
  });
}

TEST_F(Training, ALinkIsNotRemovedNorWhatItLeadsTo) {
  const TempDir elsewhere;
  write_iteration(elsewhere, 10);
  std::filesystem::create_directory_symlink(elsewhere / iteration_folder(10), at(10));
  write_iteration(dir_, 20);
  const auto report = pruned({1, 0});
  EXPECT_EQ(paths_of(report.failed), all_at({10}));
  EXPECT_EQ(latest().path, at(20));
  EXPECT_TRUE(std::filesystem::exists(elsewhere / iteration_folder(10)));
}

TEST_F(Training, ARemovalThatFailsLeavesNothingThatLooksComplete) {
  for (const int number : {10, 20, 30}) write_iteration(dir_, number);
  FaultyFileSystem files(posix_file_system());
  files.inject({.operation = Operation::unlink, .path_contains = "optim/__1", .error_number = EIO});
  const auto report = prune(files, dir_.path(), {1, 0});
  EXPECT_EQ(report.removed, all_at({20, 10}));
  EXPECT_EQ(paths_of(report.failed), all_at({20, 10}));
  EXPECT_EQ(names(), names_of({30}, {".iter_000000010.cairn-removed", ".iter_000000020.cairn-removed"}));
  EXPECT_TRUE(pruned({1, 0}).failed.empty());
  EXPECT_EQ(names(), names_of({30}));
}

// --- saving and resuming --------------------------------------------------------------------------------

// A state that is a function of the iteration.
struct Job {
  std::vector<float> weights = std::vector<float>(1000), moments = std::vector<float>(10);
  LiveState model{0}, optim{0}, trainer{0};

  explicit Job(int iteration = -1) {
    std::ranges::fill(weights, static_cast<float>(iteration));
    std::ranges::fill(moments, static_cast<float>(iteration) / 2);
    add(model, "net.w", weights);
    add(optim, "state.w", moments);
    trainer.add_object("iteration", iteration);
  }
  static void add(LiveState& state, const char* name, std::vector<float>& values) {
    const std::vector<std::int64_t> shape{static_cast<std::int64_t>(values.size())};
    state.add_tensor(name, TensorLayout::replicated(shape, 1),
                     TensorView::contiguous(DType::float32, shape, values.data()));
  }
  std::vector<SavedComponent> saved() const {
    return {{"model", model}, {"optim", optim}, {"trainer", trainer}};
  }
  std::vector<LoadedComponent> loaded() { return {{"model", model}, {"optim", optim}, {"trainer", trainer}}; }
  bool is_of(int iteration, int training_iteration) const {
    const auto all = [](const std::vector<float>& values, float wanted) {
      return std::ranges::all_of(values, [&](float value) { return value == wanted; });
    };
    return all(weights, static_cast<float>(iteration)) &&
           all(moments, static_cast<float>(training_iteration) / 2) &&
           trainer.object(0) == Object(training_iteration);
  }
  bool is_of(int iteration) const { return is_of(iteration, iteration); }
};

class TrainingJob : public Training {
 protected:
  IterationReport save(int iteration, TrainingOptions options = {}, FileSystem& files = posix_file_system()) {
    const Job job(iteration);
    return TrainingCheckpoints(*solo_, files, dir_.path(), options).save(iteration, job.saved());
  }
  ResumeReport resume(Job& job, const ResumeOptions& options = {}, FileSystem& files = posix_file_system()) {
    return TrainingCheckpoints(*solo_, files, dir_.path()).resume(job.loaded(), options);
  }
  ResumeReport expect_resumed(int iteration, const ResumeOptions& options = {}) {
    Job job;
    const auto report = resume(job, options);
    EXPECT_EQ(report.path, at(iteration));
    EXPECT_EQ(report.iteration, iteration);
    EXPECT_TRUE(report.is_own);
    EXPECT_TRUE(job.is_of(iteration)) << iteration;
    return report;
  }
  Error refusal(const ResumeOptions& options = {}) {
    Job job;
    const Error error = failure_of([&] { resume(job, options); });
    EXPECT_TRUE(job.is_of(-1));
    return error;
  }
};

TEST_F(TrainingJob, SavesAndGoesOn) {
  Job fresh;
  const auto nothing = resume(fresh);
  EXPECT_EQ(nothing.path, "");
  EXPECT_FALSE(nothing.iteration);
  EXPECT_TRUE(fresh.is_of(-1));
  for (const int iteration : {10, 20}) {
    const auto report = save(iteration);
    EXPECT_EQ(report.path, at(iteration));
    EXPECT_TRUE(report.warnings.empty()) << report.warnings[0];
    ASSERT_EQ(report.components.size(), 3u);
    EXPECT_EQ(report.components[1].second.path, at(iteration) + "/optim");
    EXPECT_EQ(dir_.read("latest_checkpoint.txt"), iteration_folder(iteration));
    EXPECT_EQ(dir_.read(iteration_folder(iteration) + "/model/.metadata").find(".cairn-part"),
              std::string::npos);
  }
  EXPECT_EQ(names(), names_of({10, 20}, {"latest_checkpoint.txt"}));
  EXPECT_TRUE(latest(true).warnings.empty() && latest(true).skipped.empty());
  const auto report = expect_resumed(20);
  EXPECT_TRUE(report.skipped.empty() && report.warnings.empty());
  EXPECT_EQ(report.components.size(), 3u);
}

TEST_F(TrainingJob, PlansAreKeptByComponent) {
  TrainingCheckpoints checkpoints(*solo_, posix_file_system(), dir_.path());
  for (const int iteration : {1, 2}) {
    const Job job(iteration);
    for (const auto& [name, saved] : checkpoints.save(iteration, job.saved()).components)
      EXPECT_EQ(saved.planned, iteration == 1) << name;
  }
}

TEST_F(TrainingJob, RetentionFollowsTheSave) {
  TrainingOptions options;
  options.retention = {2, 4};
  for (int iteration = 1; iteration <= 9; ++iteration) save(iteration, options);
  EXPECT_EQ(names(), names_of({4, 8, 9}, {"latest_checkpoint.txt"}));
  const ReadPin pin = ReadPin::take(posix_file_system(), at(9) + "/optim/.metadata");
  options.retention = {1, 0};
  const auto report = save(10, options);
  EXPECT_EQ(report.removed, all_at({8, 4}));
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_NE(report.warnings[0].find("somebody reads it"), std::string::npos);
  EXPECT_EQ(names(), names_of({9, 10}, {"latest_checkpoint.txt"}));
}

TEST_F(TrainingJob, ResumesFromTheNewestCompleteOneWhateverThePointerSays) {
  for (const int iteration : {10, 20, 30}) save(iteration);
  for (const std::string text : {"iter_000000010", "iter_000000030\r\n", "iter_000000099", "", "\n"}) {
    write_pointer(dir_, text);
    expect_resumed(30);
  }
  std::filesystem::remove(dir_ / "latest_checkpoint.txt");
  EXPECT_EQ(expect_resumed(30).warnings.size(), 1u);
  cut_by_one_byte(at(30) + "/model/__0_0.distcp");
  std::filesystem::create_directory(at(40));
  EXPECT_EQ(paths_of(expect_resumed(20).skipped), all_at({40, 30}));
}

TEST_F(TrainingJob, ResumesFromOneThatHasAllThatIsWanted) {
  save(10);
  const Job job(20);
  TrainingCheckpoints(*solo_, posix_file_system(), dir_.path()).save(20, {{"model", job.model}});
  const auto report = expect_resumed(10);
  ASSERT_EQ(report.skipped.size(), 1u);
  EXPECT_EQ(report.skipped[0].reason, "has no optim/, which is wanted");
}

TEST_F(TrainingJob, NeverBeginsAnewSilently) {
  save(10);
  std::filesystem::remove(at(10) + "/optim/.metadata");
  ResumeOptions elsewhere;
  elsewhere.start_from = dir_.write("weights.pth", "");
  for (const auto& options : {ResumeOptions(), elsewhere}) {
    const Error error = refusal(options);
    EXPECT_EQ(error.kind(), ErrorKind::not_found);
    EXPECT_TRUE(contains(error, "optim/ has no .metadata")) << error.what();
  }
  std::filesystem::remove_all(at(10));
  EXPECT_TRUE(contains(refusal(), "points to iter_000000010, which is not there"));
}

TEST_F(TrainingJob, OneThatCannotBeLookedIntoIsNotPassedOver) {
  for (const int iteration : {10, 20}) save(iteration);
  FaultyFileSystem files(posix_file_system());
  files.inject({.operation = Operation::list, .path_contains = "iter_000000020", .error_number = EACCES});
  Job job;
  const Error error = failure_of([&] { resume(job, {}, files); });
  EXPECT_EQ(error.kind(), ErrorKind::io);
  EXPECT_TRUE(contains(error, at(20))) << error.what();
}

TEST_F(TrainingJob, BeginsWithWhatAnotherJobHas) {
  save(10);
  save(20);
  const TempDir other;
  TrainingCheckpoints fresh(*solo_, posix_file_system(), other / "checkpoints");
  const auto begin = [&](const std::string& from, bool everything) {
    ResumeOptions options;
    options.start_from = from;
    options.load_training_state = everything;
    Job job;
    const auto report = fresh.resume(job.loaded(), options);
    EXPECT_FALSE(report.is_own);
    EXPECT_EQ(report.iteration.has_value(), everything) << from;
    const int iteration = from.ends_with("10") || from.find("10/") != from.npos ? 10 : 20;
    EXPECT_TRUE(everything ? job.is_of(iteration) : job.is_of(iteration, -1)) << from;
    return report;
  };
  EXPECT_EQ(begin(at(10), true).iteration, 10);
  EXPECT_EQ(begin(at(10), false).components.size(), 1u);
  EXPECT_EQ(begin(dir_.path(), true).path, at(20));
  EXPECT_EQ(begin(dir_.path(), false).path, at(20));
  EXPECT_EQ(begin(at(10) + "/model", false).path, at(10) + "/model");
  const auto refused = [&](const std::string& from) {
    ResumeOptions options;
    options.start_from = from;
    Job job;
    return failure_of([&] { fresh.resume(job.loaded(), options); });
  };
  EXPECT_TRUE(contains(refused(at(10) + "/model"), "is one checkpoint"));
  EXPECT_EQ(refused(dir_ / "absent").kind(), ErrorKind::not_found);
  std::filesystem::remove_all(at(10) + "/optim");
  EXPECT_TRUE(contains(refused(at(10)), "has no optim/"));

  const Job own(5);
  fresh.save(5, own.saved());
  ResumeOptions options;
  options.start_from = at(20);
  Job job;
  EXPECT_EQ(fresh.resume(job.loaded(), options).iteration, 5);  // what it has itself comes first
}

TEST_F(TrainingJob, NamesAndNumbersThatMakeNoSenseAreRefused) {
  const Job job(1);
  TrainingCheckpoints checkpoints(*solo_, posix_file_system(), dir_ / "new");
  const auto refused = [&](std::int64_t iteration, const std::vector<SavedComponent>& components) {
    EXPECT_EQ(failure_of([&] { checkpoints.save(iteration, components); }).kind(),
              ErrorKind::invalid_argument);
  };
  refused(-1, job.saved());
  refused(1, {});
  refused(1, {{"model", job.model}, {"model", job.optim}});
  for (const char* name : {"", "a/b", "..", ".hidden", "iter_5"}) refused(1, {{name, job.model}});
  EXPECT_FALSE(std::filesystem::exists(dir_ / "new"));
  TrainingOptions options;
  options.save.overwrite = true;
  EXPECT_EQ(
      failure_of([&] { TrainingCheckpoints(*solo_, posix_file_system(), dir_.path(), options); }).kind(),
      ErrorKind::invalid_argument);
}

TEST_F(TrainingJob, ACompleteIterationIsNotReplacedAndAHalfOneIs) {
  save(10);
  save(20);
  EXPECT_EQ(failure_of([&] { save(20); }).kind(), ErrorKind::already_exists);
  std::filesystem::remove(at(20) + "/model/.metadata");
  {
    const ReadPin pin = ReadPin::take(posix_file_system(), at(20) + "/optim/.metadata");
    EXPECT_TRUE(contains(failure_of([&] { save(20); }), "somebody reads it"));
  }
  EXPECT_EQ(names(), names_of({10, 20}, {"latest_checkpoint.txt"}));
  const auto report = save(20);
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_NE(report.warnings[0].find("is replaced"), std::string::npos);
  expect_resumed(20);
  EXPECT_EQ(names(), names_of({10, 20}, {"latest_checkpoint.txt"}));
}

TEST_F(TrainingJob, OneJobAtATimeSavesIntoATree) {
  save(10);
  const auto lock = AtomicOutput::create(posix_file_system(), dir_ / "latest_checkpoint.txt", 0, true);
  std::filesystem::create_directory(dir_ / ".iter_000000015.cairn-part");  // the other one's
  const Error error = failure_of([&] { save(20); });
  EXPECT_EQ(error.kind(), ErrorKind::already_exists);
  EXPECT_TRUE(contains(error, "another run")) << error.what();
  EXPECT_TRUE(std::filesystem::exists(dir_ / ".iter_000000015.cairn-part"));
  expect_resumed(10);
}

TEST_F(TrainingJob, AnyFailureLeavesIterationsAndPointerAsTheyWere) {
  save(10);
  const Names before = names();
  int failures = 0;
  for (const Operation operation : kChanging) {
    TrainingOptions options;
    options.save.sync = operation == Operation::sync || operation == Operation::sync_directory;
    for (std::uint64_t call = 0;; ++call) {
      FaultyFileSystem files(posix_file_system());
      files.inject({.operation = operation, .first_call = call, .call_count = 1, .error_number = EIO});
      try {
        save(20, options, files);
        break;  // it has no such call any more, or one whose failure hurts nobody
      } catch (const Error& error) {
        ++failures;
        if (std::filesystem::exists(at(20))) {  // all was there, only durability failed
          EXPECT_EQ(operation, Operation::sync_directory);
          EXPECT_EQ(dir_.read("latest_checkpoint.txt"), iteration_folder(20));
          break;
        }
        Names left = names();
        EXPECT_EQ(left, before) << static_cast<int>(operation) << " call " << call << ": " << error.what();
        EXPECT_EQ(dir_.read("latest_checkpoint.txt"), iteration_folder(10));
      }
    }
    std::filesystem::remove_all(at(20));
    write_pointer(dir_, iteration_folder(10));
  }
  EXPECT_GT(failures, 30);
}

/// Runs `body` in a child whose n-th call of an operation is its last; false when it came to its end.
template <class Body>
bool is_killed(Operation operation, std::uint64_t call, Body&& body) {
  const pid_t child = fork();
  if (child == 0) {
    FaultyFileSystem files(posix_file_system());
    files.inject({.operation = operation, .first_call = call, .call_count = 1, .kill = true});
    try {
      body(files);
      _exit(0);
    } catch (...) {
      _exit(1);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << static_cast<int>(operation) << " " << call;
  return WIFSIGNALED(status);
}

TEST_F(TrainingJob, AKilledSaveLeavesTheOldOrTheNewAndTheNextOneGoesOn) {
  TrainingOptions options;
  options.save.sync = false;
  options.retention = {1, 0};
  int kills = 0;
  for (const Operation operation : {Operation::create, Operation::make_directories, Operation::rename,
                                    Operation::unlink, Operation::remove_directory}) {
    for (std::uint64_t call = 0;; ++call) {
      for (const auto& name : names()) std::filesystem::remove_all(dir_ / name);
      save(10, options);
      if (!is_killed(operation, call, [&](FileSystem& files) { save(20, options, files); })) break;
      ++kills;
      const auto found = latest();
      ASSERT_TRUE(found.path == at(10) || found.path == at(20))
          << static_cast<int>(operation) << " call " << call;
      EXPECT_TRUE(found.skipped.empty());
      expect_resumed(static_cast<int>(*found.iteration));
      save(30, options);
      EXPECT_EQ(names(), names_of({30}, {"latest_checkpoint.txt"}));
    }
  }
  EXPECT_GT(kills, 25);
}

// The reader pins what it reads; the writer keeps one iteration and removes all others.
TEST_F(TrainingJob, AReaderAlwaysFindsOneAndReadsItToItsEnd) {
  TrainingOptions options;
  options.save.sync = false;
  options.retention = {1, 0};
  save(0, options);
  std::atomic<bool> done{false};
  int reads = 0;
  std::thread reader([&] {
    const auto solo = solo_communicator();
    TrainingCheckpoints checkpoints(*solo, posix_file_system(), dir_.path());
    try {
      for (; !done || reads == 0; ++reads) {
        Job job;
        const auto report = checkpoints.resume(job.loaded());
        EXPECT_TRUE(report.iteration && job.is_of(static_cast<int>(*report.iteration)));
      }
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  });
  for (int iteration = 1; iteration <= 60; ++iteration) save(iteration, options);
  done = true;
  reader.join();
  save(61, options);
  EXPECT_EQ(names(), names_of({61}, {"latest_checkpoint.txt"}));
}

}  // namespace
}  // namespace cairn
