// SPDX-License-Identifier: BSD-3-Clause
#include "formats/layout/training_tree.hpp"

#include <gtest/gtest.h>

#include <cerrno>

#include "failure_of.hpp"
#include "storage/fault.hpp"
#include "training_fixture.hpp"

namespace cairn::layout {
namespace {

using State = Judgement::State;

class Tree : public testing::Test {
 protected:
  TrainingTree tree() { return {posix_file_system(), dir_.path()}; }
  std::vector<std::string> names() {
    std::vector<std::string> found;
    const TrainingTree now = tree();
    for (const auto& iteration : now.iterations()) found.push_back(iteration.name);
    return found;
  }
  Judgement judge(int number) { return judge_in(posix_file_system(), iteration_folder(number)); }
  Judgement judge_in(FileSystem& files, const std::string& name) {
    TrainingTree tree(files, dir_.path());
    for (std::size_t i = 0; i < tree.iterations().size(); ++i) {
      if (tree.iterations()[i].name == name) return tree.judge(i);
    }
    ADD_FAILURE() << name << " is not there";
    return {};
  }
  void expect_complete(int number) { EXPECT_EQ(judge(number).reason, "") << number; }
  void expect_broken(int number, const std::string& word) {
    const auto found = judge(number);
    EXPECT_EQ(found.state, State::broken) << number;
    EXPECT_NE(found.reason.find(word), std::string::npos) << number << ": " << found.reason;
  }

  TempDir dir_;
};

TEST_F(Tree, IterationsComeByNumberNewestFirst) {
  for (const char* name : {"iter_9", "iter_000000010", "step-100", "step_99", "iter_", "iter_x", "iterations",
                           "iter_99999999999999999999", ".iter_000000200.cairn-part"})
    std::filesystem::create_directory(dir_ / name);
  dir_.write("iter_000000300", "a file");
  EXPECT_EQ(names(), (std::vector<std::string>{"step-100", "step_99", "iter_000000010", "iter_9"}));
}

TEST_F(Tree, ADirectoryThatIsNotThereHasNone) {
  const TrainingTree none(posix_file_system(), dir_ / "absent");
  EXPECT_TRUE(none.iterations().empty());
  EXPECT_FALSE(none.has_pointer());
}

TEST_F(Tree, ThePointerMayEndInAnyLineEnd) {
  write_iteration(dir_, 10);
  write_iteration(dir_, 20);
  for (const char* end : {"", "\n", "\r\n", " \r\n\n"}) {
    write_pointer(dir_, iteration_folder(10) + end);
    EXPECT_EQ(tree().pointed(), 1u) << end;
    EXPECT_EQ(tree().pointer_fault(), "");
  }
}

TEST_F(Tree, APointerThatNamesNothingIsSaid) {
  write_iteration(dir_, 10);
  for (const std::string text : {"", "\n", "../iter_000000010", "iter_000000099", "."}) {
    write_pointer(dir_, text);
    EXPECT_FALSE(tree().pointed()) << text;
    EXPECT_NE(tree().pointer_fault().find("latest_checkpoint.txt"), std::string::npos) << text;
    expect_complete(10);
  }
  FaultyFileSystem files(posix_file_system());
  files.inject({.operation = Operation::read, .path_contains = "latest_checkpoint", .error_number = EIO});
  EXPECT_NE(TrainingTree(files, dir_.path()).pointer_fault(), "");
}

TEST_F(Tree, OneWithoutANumberIsOlderThanAllWithOne) {
  write_iteration(dir_, 10);
  write_iteration(dir_, 30);
  dir_.write("best/model/.metadata", "x"), dir_.write("best/extra/.metadata", "x");
  write_pointer(dir_, "best");
  EXPECT_EQ(names(), (std::vector<std::string>{iteration_folder(30), iteration_folder(10), "best"}));
  expect_complete(30);  // what `best` has is not asked of others
  expect_complete(10);
}

TEST_F(Tree, HiddenNamesAreNoIterations) {
  for (const std::string name : {".iter_000000030.cairn-part", ".iter_000000030.cairn-removed", ".best"}) {
    dir_.write(name + "/model/.metadata", "x");
    write_pointer(dir_, name);
    EXPECT_TRUE(names().empty()) << name;
    EXPECT_NE(tree().pointer_fault().find("which is no iteration"), std::string::npos)
        << tree().pointer_fault();
  }
}

TEST_F(Tree, APointerMayNameADirectoryOfAnyName) {
  write_iteration(dir_, 10);
  write_component(dir_, "best/model");
  EXPECT_EQ(names().size(), 1u);
  write_pointer(dir_, "best");
  EXPECT_EQ(names(), (std::vector<std::string>{iteration_folder(10), "best"}));
  EXPECT_FALSE(tree().iterations()[1].number);
  EXPECT_TRUE(judge_in(posix_file_system(), "best").is_complete());
}

TEST_F(Tree, AWholeIterationIsComplete) {
  write_iteration(dir_, 10);
  dir_.write(iteration_folder(10) + "/log/events", "no component");
  dir_.write(iteration_folder(10) + "/model.pth", "no component");
  const auto found = judge(10);
  EXPECT_TRUE(found.is_complete()) << found.reason;
  EXPECT_EQ(found.components, (std::vector<std::string>{"model", "optim", "trainer"}));
}

TEST_F(Tree, EachKindOfHalfComponentIsFound) {
  for (const int number : {10, 20, 30, 40, 50, 60, 70}) write_iteration(dir_, number);
  write_pointer(dir_, iteration_folder(10));
  const auto part = [&](int number, const char* rest) { return dir_ / (iteration_folder(number) + rest); };
  std::filesystem::remove(part(20, "/optim/.metadata"));
  std::filesystem::remove(part(30, "/optim/__1_0.distcp"));
  cut_by_one_byte(part(40, "/optim/__1_0.distcp"));
  cut_by_one_byte(part(50, "/optim/.metadata"));
  std::filesystem::resize_file(part(60, "/optim/.metadata"), 0);
  std::filesystem::remove_all(part(70, "/optim"));
  std::filesystem::create_directory(part(70, "/optim"));
  expect_complete(10);
  for (const int number : {20, 30, 40, 50, 60, 70}) expect_broken(number, "optim");
  expect_broken(20, "no .metadata");
  expect_broken(30, "missing");
  expect_broken(40, "takes");
  std::filesystem::create_directory(dir_ / iteration_folder(80));
  expect_broken(80, "holds no checkpoint");
}

TEST_F(Tree, AnIterationBeyondThePointerNeedsWhatThePointedOneHas) {
  write_iteration(dir_, 10);
  write_iteration(dir_, 20, {"model"});
  write_iteration(dir_, 30, {"model", "optim"});
  write_iteration(dir_, 40, {"discriminator", "model", "optim", "trainer"});
  write_pointer(dir_, iteration_folder(10));
  expect_complete(10);
  expect_broken(20, "has no optim/");
  expect_broken(30, "has no trainer/");
  expect_complete(40);
  write_pointer(dir_, iteration_folder(30));  // whoever wrote that had saved all it wanted
  expect_complete(30);
}

TEST_F(Tree, AnOlderIterationNeedsWhatBothNeighboursHave) {
  write_iteration(dir_, 10, {"model"});
  write_iteration(dir_, 20, {"model", "optim"});  // from here on with an optimizer
  write_iteration(dir_, 30, {"model"});
  write_iteration(dir_, 40, {"model", "optim", "trainer"});
  write_iteration(dir_, 50, {"model", "optim"});  // from here on without the trainer
  write_iteration(dir_, 60, {"model", "optim"});
  write_pointer(dir_, iteration_folder(60));
  for (const int number : {10, 20, 40, 50, 60}) expect_complete(number);
  expect_broken(30, "has no optim/");
}

TEST_F(Tree, WithoutAPointerTheNewestNeedsWhatTheOneBeforeHas) {
  write_iteration(dir_, 10);
  write_iteration(dir_, 20, {"model", "optim"});
  expect_broken(20, "has no trainer/");
  expect_complete(10);
}

TEST_F(Tree, AnIterationMayBeACheckpointItself) {
  for (const char* name : {"step-10", "step-20", "step-30"}) write_component(dir_, name);
  std::filesystem::remove(dir_ / "step-30/__0_0.distcp");
  std::filesystem::remove(dir_ / "step-20/.metadata");
  write_iteration(dir_, 40);
  EXPECT_TRUE(judge_in(posix_file_system(), "step-10").is_complete());
  EXPECT_EQ(judge_in(posix_file_system(), "step-10").components, std::vector<std::string>{""});
  EXPECT_EQ(judge_in(posix_file_system(), "step-20").state, State::broken);
  EXPECT_EQ(judge_in(posix_file_system(), "step-30").state, State::broken);
  expect_complete(40);
}

TEST_F(Tree, WhatCannotBeLookedIntoIsNeitherCompleteNorBroken) {
  write_iteration(dir_, 10);
  write_iteration(dir_, 20);
  FaultyFileSystem files(posix_file_system());
  files.inject({.operation = Operation::list, .path_contains = "iter_000000020", .error_number = EACCES});
  const auto found = judge_in(files, iteration_folder(20));
  EXPECT_EQ(found.state, State::unknown);
  EXPECT_NE(found.reason.find("Permission denied"), std::string::npos) << found.reason;
  EXPECT_TRUE(judge_in(files, iteration_folder(10)).is_complete());
  files.heal();
  files.inject({.operation = Operation::open_read, .path_contains = "optim/.metadata", .error_number = EIO});
  EXPECT_EQ(judge_in(files, iteration_folder(20)).state, State::unknown);
}

TEST_F(Tree, ATreeIsFoundAtItsDirectoryOrTheOneAbove) {
  const auto found = [&](const std::string& path) { return tree_directory(posix_file_system(), path); };
  write_component(dir_, "run/checkpoints/iter_000000010/model");
  EXPECT_EQ(found(dir_ / "run"), dir_ / "run/checkpoints");
  EXPECT_EQ(found(dir_ / "run/checkpoints"), dir_ / "run/checkpoints");
  const auto refusal = [&](const std::string& path) { return failure_of([&] { found(path); }); };
  EXPECT_TRUE(contains(refusal(dir_ / "run/checkpoints/iter_000000010"), "is one checkpoint"));
  EXPECT_TRUE(contains(refusal(dir_ / "run/checkpoints/iter_000000010/model"), "is one checkpoint"));
  EXPECT_TRUE(contains(refusal(dir_ / "absent"), "no such directory"));
  EXPECT_TRUE(contains(refusal(dir_.write("file", "x")), "no directory"));
  std::filesystem::create_directory(dir_ / "empty");
  EXPECT_TRUE(contains(refusal(dir_ / "empty"), "holds no iterations"));
  EXPECT_EQ(refusal(dir_ / "empty").kind(), ErrorKind::not_found);
}

}  // namespace
}  // namespace cairn::layout
