// SPDX-License-Identifier: BSD-3-Clause
// Training trees on one rank: saves and resumes, failures and kills.
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
#include "training_suite.hpp"

namespace cairn {
namespace {

constexpr Operation kChanging[] = {
    Operation::create,          Operation::open_write, Operation::make_directories,
    Operation::rename,          Operation::unlink,     Operation::sync_directory,
    Operation::write,           Operation::sync,       Operation::close,
    Operation::remove_directory};

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

// Whoever can plant one in the tree has no say in what the job writes elsewhere.
TEST_F(TrainingJob, NothingIsSavedThroughALink) {
  save(10);
  const TempDir elsewhere;
  elsewhere.write("half/model/__0_0.distcp", "");
  elsewhere.write("text", "kept");
  const std::string hidden = dir_ / ("." + iteration_folder(20) + ".cairn-part");
  const std::string pointer = dir_ / "latest_checkpoint.txt";
  struct Case {
    std::string link, target;
  };
  for (const auto& [link, target] :
       {Case{at(20), elsewhere / "half"}, Case{at(20), elsewhere / "nowhere"},
        Case{hidden, elsewhere / "half"}, Case{hidden, elsewhere / "nowhere"},
        Case{pointer, elsewhere / "text"}, Case{pointer, elsewhere / "nowhere"}}) {
    std::filesystem::remove(pointer);
    std::filesystem::create_symlink(target, link);
    for (const bool in_background : {false, true}) {
      const Job job(20);
      const Error error = failure_of([&] {
        TrainingCheckpoints checkpoints(*solo_, posix_file_system(), dir_.path());
        if (in_background)
          checkpoints.start_save(20, job.saved());
        else
          checkpoints.save(20, job.saved());
      });
      EXPECT_EQ(error.kind(), ErrorKind::already_exists);
      EXPECT_TRUE(contains(error, link + ": is a link")) << error.what();
    }
    EXPECT_EQ(std::filesystem::read_symlink(link), target);
    EXPECT_EQ(elsewhere.read("text"), "kept");
    EXPECT_FALSE(std::filesystem::exists(elsewhere / "nowhere"));
    EXPECT_EQ(std::distance(std::filesystem::recursive_directory_iterator(elsewhere.path()), {}), 4);
    std::filesystem::remove(link);
  }
  save(20);
  expect_resumed(20);
}

TEST_F(TrainingJob, AComponentThatIsALinkIsReadAndNeverWrittenThrough) {
  save(10);
  const TempDir elsewhere;
  std::filesystem::rename(at(10) + "/model", elsewhere / "model");
  std::filesystem::create_directory_symlink(elsewhere / "model", at(10) + "/model");
  expect_resumed(10);
  save(20);
  std::filesystem::remove(at(20) + "/optim/.metadata");
  std::filesystem::rename(at(20) + "/model", elsewhere / "half");
  std::filesystem::create_directory_symlink(elsewhere / "half", at(20) + "/model");
  write_pointer(dir_, iteration_folder(10));
  const Job job(30);
  TrainingCheckpoints checkpoints(*solo_, posix_file_system(), dir_.path());
  EXPECT_EQ(checkpoints.save(20, job.saved()).warnings.size(),
            1u);  // replaced, the link and not what it leads to
  EXPECT_FALSE(std::filesystem::is_symlink(at(20) + "/model"));
  EXPECT_TRUE(std::filesystem::exists(elsewhere / "half/.metadata"));
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
