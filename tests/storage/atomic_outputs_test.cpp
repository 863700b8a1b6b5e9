// SPDX-License-Identifier: BSD-3-Clause
#include "storage/atomic_outputs.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>

#include "base/byte_writer.hpp"
#include "failure_of.hpp"
#include "storage/fault.hpp"
#include "temp_dir.hpp"

namespace cairn {
namespace {

using Names = std::vector<std::string>;

// Three outputs, "b" with an old one, in a file system that fails on request.
struct Set {
  TempDir dir;
  FaultyFileSystem files{posix_file_system()};
  bool overwrite = true;

  AtomicOutputs filled() {
    auto set = AtomicOutputs::create(files, {{dir / "a", 3}, {dir / "b", 3}, {dir / "c", 3}}, overwrite);
    for (std::size_t i = 0; i < set.size(); ++i) {
      const auto file = posix_file_system().open_write(set[i].temporary_path());
      file->write(0, as_bytes("new"));
      file->close();
    }
    return set;
  }
  Names left() const { return posix_file_system().list(dir.path()); }
};

TEST(AtomicOutputs, AppearTogether) {
  Set set;
  set.dir.write("b", "old"), set.dir.write("a", "old");
  {
    auto outputs = set.filled();
    EXPECT_EQ(set.dir.read("b"), "old");
    outputs.publish(true);
  }
  EXPECT_EQ(set.left(), (Names{"a", "b", "c"}));
  for (const char* name : {"a", "b", "c"}) EXPECT_EQ(set.dir.read(name), "new");
  EXPECT_EQ(set.files.count(Operation::sync).calls, 3u);
}

TEST(AtomicOutputs, OneFileUnderTwoNamesIsRefused) {
  TempDir dir;
  dir.write("a", "old");
  std::filesystem::create_symlink("a", dir / "b");
  const auto error = failure_of([&] {
    AtomicOutputs::create(posix_file_system(), {{dir / "a", 3}, {dir / "b", 3}}, true);
  });
  EXPECT_EQ(error.kind(), ErrorKind::invalid_argument) << error.what();
  EXPECT_EQ(posix_file_system().list(dir.path()), (Names{"a", "b"}));
}

// One output's temporary must not be another output.
TEST(AtomicOutputs, NamesOfOutputsInTheMakingAreRefused) {
  for (const char* name : {".a.cairn-part", ".a.cairn-old"}) {
    TempDir dir;
    dir.write("a", "old");
    const auto error = failure_of([&] {
      AtomicOutputs::create(posix_file_system(), {{dir / "a", 3}, {dir / name, 3}}, true);
    });
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument) << error.what();
    EXPECT_EQ(posix_file_system().list(dir.path()), Names{"a"});
  }
}

TEST(AtomicOutputs, AFailedRenameOfAnyPutsTheOldOnesBack) {
  for (const std::uint64_t failing : {0u, 1u, 2u}) {
    Set set;
    set.dir.write("b", "old"), set.dir.write("a", "older");
    set.files.inject({.operation = Operation::rename,
                      .path_contains = ".cairn-part",
                      .first_call = failing,
                      .error_number = EIO});
    {
      auto outputs = set.filled();
      EXPECT_EQ(failure_of([&] { outputs.publish(false); }).kind(), ErrorKind::io);
    }
    EXPECT_EQ(set.left(), (Names{"a", "b"})) << failing;
    EXPECT_EQ(set.dir.read("a"), "older");
    EXPECT_EQ(set.dir.read("b"), "old");
  }
}

TEST(AtomicOutputs, OneThatAppearedMeanwhileIsKeptAndTheOthersGo) {
  Set set;
  set.overwrite = false;
  {
    auto outputs = set.filled();
    set.dir.write("a", "theirs");
    EXPECT_EQ(failure_of([&] { outputs.publish(true); }).kind(), ErrorKind::already_exists);
  }
  EXPECT_EQ(set.left(), Names{"a"});
  EXPECT_EQ(set.dir.read("a"), "theirs");
}

TEST(AtomicOutputs, EveryStepBeforeTheRenamesLeavesAllUntouched) {
  for (const auto operation :
       {Operation::create, Operation::lock, Operation::allocate, Operation::sync, Operation::link}) {
    Set set;
    set.dir.write("b", "old"), set.dir.write("c", "old");
    set.files.inject({.operation = operation, .first_call = 1, .error_number = EIO});
    const auto error = failure_of([&] {
      auto outputs = set.filled();
      outputs.publish(true);
    });
    EXPECT_EQ(error.kind(), ErrorKind::io) << error.what();
    EXPECT_EQ(set.left(), (Names{"b", "c"})) << static_cast<int>(operation);
    EXPECT_EQ(set.dir.read("b"), "old");
  }
}

TEST(AtomicOutputs, WhatCannotBePutBackIsSaidWithItsPlace) {
  Set set;
  set.dir.write("b", "old"), set.dir.write("a", "older");
  set.files.inject({.operation = Operation::rename, .path_contains = "/.a.", .error_number = EIO});
  set.files.inject({.operation = Operation::rename, .path_contains = ".cairn-old", .error_number = EIO});
  {
    auto outputs = set.filled();
    const auto error = failure_of([&] { outputs.publish(false); });
    EXPECT_TRUE(contains(error, set.dir / "b had been replaced already")) << error.what();
    EXPECT_TRUE(contains(error, set.dir / ".b.cairn-old")) << error.what();
  }
  EXPECT_EQ(set.dir.read(".b.cairn-old"), "old");
  EXPECT_EQ(set.dir.read("a"), "older");
}

TEST(AtomicOutputs, ASecondNameLeftByAKilledRunIsReplaced) {
  Set set;
  set.dir.write("b", "old"), set.dir.write(".b.cairn-old", "ancient");
  set.filled().publish(false);
  EXPECT_EQ(set.left(), (Names{"a", "b", "c"}));
}

}  // namespace
}  // namespace cairn
