// SPDX-License-Identifier: BSD-3-Clause
// Iterations saved by N ranks, gone on from by M: all pairs in one launch; failures of each rank; retention.
#include "cairn/training.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <set>

#include "failure_of.hpp"
#include "iota_state.hpp"
#include "shared_directory.hpp"
#include "storage/fault.hpp"
#include "storage/read_pin.hpp"
#include "world.hpp"

namespace cairn {
namespace {

void nothing(const TempDir&) {}

/// The state of a job at an iteration, as a rank of `comm` has it.
struct Job {
  IotaState model, optim;
  LiveState trainer;
  bool by_rows;

  Job(const Communicator& comm, int iteration, bool filled, bool rows)
      : model(comm.rank()), optim(comm.rank()), trainer(comm.rank()), by_rows(rows) {
    const auto seed = static_cast<std::uint64_t>(iteration);
    const auto sharded = TensorLayout::sharded({23, 9}, by_rows ? 0 : 1, comm.size());
    model.add("net.w", DType::float32, sharded, seed, filled);
    model.add("net.b", DType::bfloat16, TensorLayout::replicated({9}, comm.size()), seed + 1, filled);
    optim.add("state.net.w.exp_avg", DType::float32, sharded, seed + 2, filled);
    optim.live.add_object("step", filled ? iteration : -1);
    trainer.add_object("iteration", filled ? iteration : -1);
  }
  std::vector<SavedComponent> saved() const {
    return {{"model", model.live}, {"optim", optim.live}, {"trainer", trainer}};
  }
  std::vector<LoadedComponent> loaded() {
    return {{"model", model.live}, {"optim", optim.live}, {"trainer", trainer}};
  }
  bool is_of(int iteration) {
    const auto seed = static_cast<std::uint64_t>(iteration);
    return model.wrong_bytes(0, seed) == 0 && model.wrong_bytes(1, seed + 1) == 0 &&
           optim.wrong_bytes(0, seed + 2) == 0 && optim.live.object(1) == Object(iteration) &&
           trainer.object(0) == Object(iteration);
  }
};

IterationReport save(Communicator& comm, TrainingCheckpoints& checkpoints, int iteration,
                     bool by_rows = true) {
  return checkpoints.save(iteration, Job(comm, iteration, true, by_rows).saved());
}

ResumeReport expect_resumed(Communicator& comm, const std::string& directory, int iteration,
                            bool by_rows = false) {
  TrainingCheckpoints checkpoints(comm, posix_file_system(), directory);
  Job job(comm, iteration, false, by_rows);
  const auto report = checkpoints.resume(job.loaded());
  EXPECT_EQ(report.iteration, iteration);
  EXPECT_TRUE(job.is_of(iteration));
  return report;
}

std::string iteration_name(int number) {
  const std::string digits = std::to_string(number);
  return "iter_" + std::string(9 - digits.size(), '0') + digits;
}

// Names in a directory, and the pointer's text; rank 0 looks, and all ranks learn it.
std::string content(const std::string& directory) {
  Bytes text;
  if (world().rank() == 0) {
    std::set<std::string> names;
    std::string words;
    if (std::filesystem::exists(directory)) {
      for (const auto& entry : std::filesystem::directory_iterator(directory))
        names.insert(entry.path().filename());
    }
    for (const auto& name : names) words += name + " ";
    std::ifstream pointer(directory + "/latest_checkpoint.txt");
    words += std::string{std::istreambuf_iterator<char>(pointer), std::istreambuf_iterator<char>()};
    text.assign(as_bytes(words).begin(), as_bytes(words).end());
  }
  world().broadcast(text, 0);
  return std::string(as_text(text));
}

template <class Body>
void on_first(Body&& body) {
  if (world().rank() == 0) body();
  barrier(world());
}

TrainingOptions unsynced() {
  TrainingOptions options;
  options.save.sync = false;
  return options;
}

TEST(Training, EveryNumberOfRanksGoesOnFromEveryOther) {
  const SharedDirectory dir(nothing);
  for (int from = 1; from <= world().size(); ++from) {
    const auto savers = world().split(world().rank() < from ? 0 : 1, 0);
    if (world().rank() < from) {
      TrainingCheckpoints checkpoints(*savers, posix_file_system(), dir.path(), unsynced());
      for (const int iteration : {10 * from, 10 * from + 1}) save(*savers, checkpoints, iteration);
    }
    barrier(world());
    for (int to = 1; to <= world().size(); ++to) {
      const auto readers = world().split(world().rank() < to ? 0 : 1, 0);
      const auto report = expect_resumed(*readers, dir.path(), 10 * from + 1, to % 2 == 0);
      EXPECT_TRUE(report.skipped.empty() && report.warnings.empty());
      EXPECT_EQ(report.components.size(), 3u);
    }
    barrier(world());
  }
}

TEST(Training, RanksThatDisagreeAreTold) {
  if (world().size() == 1) return;
  const SharedDirectory dir(nothing);
  const bool is_last = world().rank() == world().size() - 1;
  const auto refused = [&](auto&& body) { EXPECT_EQ(failure_of(body).kind(), ErrorKind::invalid_argument); };
  TrainingOptions options;
  options.retention.keep_last = is_last ? 2 : 1;
  refused([&] { TrainingCheckpoints(world(), posix_file_system(), dir.path(), options); });
  TrainingCheckpoints checkpoints(world(), posix_file_system(), dir.path());
  refused([&] { save(world(), checkpoints, is_last ? 2 : 1); });
  Job job(world(), 1, true, true);
  auto components = job.saved();
  if (is_last) components.pop_back();
  refused([&] { checkpoints.save(1, components); });
  ResumeOptions elsewhere;
  elsewhere.start_from = is_last ? "a" : "b";
  refused([&] { checkpoints.resume(job.loaded(), elsewhere); });
  EXPECT_EQ(content(dir.path()), "");
  save(world(), checkpoints, 1);
  expect_resumed(world(), dir.path(), 1);
}

struct Failing {
  Operation operation;
  const char* path;
};
const Failing kSteps[] = {
    {Operation::create, "model/"},  {Operation::create, "optim/"},
    {Operation::write, "trainer/"}, {Operation::close, "optim/__"},
    {Operation::rename, "trainer"}, {Operation::create, "latest_checkpoint"},
    {Operation::write, "latest"},   {Operation::make_directories, "cairn-part"},
    {Operation::rename, "latest"},
};

TEST(Training, AFailureOfAnyRankLeavesPointerAndIterationsAsTheyWere) {
  const SharedDirectory dir(nothing);
  TrainingCheckpoints checkpoints(world(), posix_file_system(), dir.path(), unsynced());
  save(world(), checkpoints, 10);
  const std::string before = content(dir.path());
  for (const Failing& step : kSteps) {
    for (int rank = 0; rank < world().size(); ++rank) {
      FaultyFileSystem files(posix_file_system());
      if (world().rank() == rank)
        files.inject({.operation = step.operation, .path_contains = step.path, .error_number = EIO});
      TrainingCheckpoints failing(world(), files, dir.path(), unsynced());
      std::string failure;
      try {
        save(world(), failing, 20);
      } catch (const Error& error) {
        failure = error.what();
      }
      for (const Bytes& theirs : world().gather(as_bytes(failure), 0)) EXPECT_EQ(as_text(theirs), failure);
      EXPECT_TRUE(!failure.empty() || rank > 0) << static_cast<int>(step.operation) << " " << step.path;
      if (!failure.empty()) {
        EXPECT_EQ(content(dir.path()), before) << failure;
      } else {
        on_first([&] {
          std::filesystem::remove_all(dir.path() + "/" + iteration_name(20));
          std::ofstream(dir.path() + "/latest_checkpoint.txt") << iteration_name(10);
        });
      }
    }
  }
  expect_resumed(world(), dir.path(), 10);
  save(world(), checkpoints, 20);
  expect_resumed(world(), dir.path(), 20);
}

TEST(Training, RetentionLeavesWhatIsRead) {
  const SharedDirectory dir(nothing);
  TrainingOptions options = unsynced();
  options.retention = {1, 0};
  TrainingCheckpoints checkpoints(world(), posix_file_system(), dir.path(), options);
  for (const int iteration : {1, 2}) save(world(), checkpoints, iteration);
  EXPECT_EQ(content(dir.path()), "iter_000000002 latest_checkpoint.txt iter_000000002");
  ReadPin pin;
  if (world().rank() == world().size() - 1)
    pin = ReadPin::take(posix_file_system(), dir.path() + "/iter_000000002/optim/.metadata");
  const auto report = save(world(), checkpoints, 3);
  EXPECT_TRUE(report.removed.empty());
  EXPECT_EQ(report.warnings.size(), 1u);
  EXPECT_EQ(content(dir.path()), "iter_000000002 iter_000000003 latest_checkpoint.txt iter_000000003");
  pin = {};
  barrier(world());
  EXPECT_EQ(save(world(), checkpoints, 4).removed.size(), 2u);
  EXPECT_EQ(content(dir.path()), "iter_000000004 latest_checkpoint.txt iter_000000004");
}

TEST(Training, WhetherPayloadIsComparedIsTheFirstRanksChoice) {
  const SharedDirectory dir(nothing);
  TrainingCheckpoints checkpoints(world(), posix_file_system(), dir.path(), unsynced());
  save(world(), checkpoints, 1);
  for (const bool choice : {true, false}) {
    const auto found = find_latest(world(), posix_file_system(), dir.path(), (world().rank() == 0) == choice);
    EXPECT_EQ(found.path, dir.path() + "/iter_000000001");
  }
}

TEST(Training, BadPointersAndHalfIterationsArePassedOverOnAllRanks) {
  const SharedDirectory dir(nothing);
  TrainingCheckpoints checkpoints(world(), posix_file_system(), dir.path(), unsynced());
  for (const int iteration : {10, 20, 30}) save(world(), checkpoints, iteration);
  on_first([&] {
    std::filesystem::remove(dir.path() + "/iter_000000030/optim/.metadata");  // a half one
    std::filesystem::create_directory(dir.path() + "/iter_000000040");        // an empty one
  });
  for (const std::string text : {"iter_000000030", "iter_000000040", "iter_000000050", "iter_000000020\n",
                                 "iter_000000020\r\n", "iter_000000010", "", "../x"}) {
    on_first([&] { std::ofstream(dir.path() + "/latest_checkpoint.txt") << text; });
    const auto report = expect_resumed(world(), dir.path(), 20);
    EXPECT_EQ(report.skipped.size(), 2u) << text;
    const auto found = find_latest(world(), posix_file_system(), dir.path(), true);
    EXPECT_EQ(found.path, dir.path() + "/iter_000000020");
    EXPECT_EQ(found.skipped.size(), 2u);
    barrier(world());
  }
}

}  // namespace
}  // namespace cairn
