// SPDX-License-Identifier: BSD-3-Clause
#include "storage/remove_tree.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>

#include "failure_of.hpp"
#include "storage/fault.hpp"
#include "temp_dir.hpp"

namespace cairn {
namespace {

TEST(RemoveTree, EverythingGoesAndLinksAreNotFollowed) {
  const TempDir dir;
  dir.write("kept/file", "x");
  dir.write("tree/a/.metadata", "x");
  dir.write("tree/a/b/c", "x");
  std::filesystem::create_directory(dir / "tree/empty");
  std::filesystem::create_directory_symlink(dir / "kept", dir / "tree/link");
  std::filesystem::create_symlink("nowhere", dir / "tree/dangling");
  remove_tree(posix_file_system(), dir / "tree", ".metadata");
  EXPECT_FALSE(std::filesystem::exists(dir / "tree"));
  EXPECT_EQ(dir.read("kept/file"), "x");
  remove_tree(posix_file_system(), dir / "tree", ".metadata");  // not there
}

TEST(RemoveTree, WhatIsToGoFirstIsGoneWhenTheRestFails) {
  const TempDir dir;
  for (const char* name : {"tree/a/.metadata", "tree/a/shard", "tree/z/.metadata", "tree/z/shard"})
    dir.write(name, "x");
  FaultyFileSystem files(posix_file_system());
  files.inject({.operation = Operation::unlink, .path_contains = "shard", .error_number = EIO});
  EXPECT_EQ(failure_of([&] { remove_tree(files, dir / "tree", ".metadata"); }).kind(), ErrorKind::io);
  EXPECT_FALSE(std::filesystem::exists(dir / "tree/a/.metadata"));
  EXPECT_FALSE(std::filesystem::exists(dir / "tree/z/.metadata"));
  EXPECT_TRUE(std::filesystem::exists(dir / "tree/z/shard"));
}

TEST(RemoveTree, WhatSomebodyElseRemovesIsNoFailure) {
  const TempDir dir;
  dir.write("tree/a", "x");
  FaultyFileSystem files(posix_file_system());
  files.inject({.operation = Operation::unlink, .call_count = 1, .error_number = ENOENT});
  files.inject({.operation = Operation::remove_directory, .call_count = 1, .error_number = ENOENT});
  remove_tree(files, dir / "tree", "first");
  EXPECT_EQ(files.count(Operation::remove_directory).calls, 1u);
}

}  // namespace
}  // namespace cairn
