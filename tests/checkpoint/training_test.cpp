// SPDX-License-Identifier: BSD-3-Clause
// Training trees on one rank: the latest iteration, retention.
#include "cairn/training.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace cairn
