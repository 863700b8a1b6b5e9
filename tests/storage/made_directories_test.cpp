// SPDX-License-Identifier: BSD-3-Clause
#include "storage/made_directories.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "failure_of.hpp"
#include "storage/fault.hpp"
#include "temp_dir.hpp"

namespace cairn {
namespace {

using Names = std::vector<std::string>;

TEST(MadeDirectories, ThoseThatAreEmptyGoAgain) {
  const TempDir dir;
  FileSystem& files = posix_file_system();
  files.make_directories(dir / "there");
  {
    MadeDirectories made(files);
    made.make(dir / "there");
    made.make(dir / "there/new/inner/");
    made.make(dir / "there/new/other");
    EXPECT_EQ(files.list(dir / "there/new"), (Names{"inner", "other"}));
  }
  EXPECT_EQ(files.list(dir / "there"), Names{});
}

TEST(MadeDirectories, ThoseWithSomethingInThemStayAndSoDoThoseThatAreKept) {
  const TempDir dir;
  FileSystem& files = posix_file_system();
  {
    MadeDirectories made(files);
    made.make(dir / "a/full");
    made.make(dir / "a/empty");
    dir.write("a/full/file", "x");
    MadeDirectories kept(files);
    kept.make(dir / "b/c");
    kept.keep();
  }
  EXPECT_EQ(files.list(dir / "a"), Names{"full"});
  EXPECT_EQ(files.list(dir / "b"), Names{"c"});
}

TEST(MadeDirectories, OfAPathThatCannotBeMadeNothingStays) {
  const TempDir dir;
  FaultyFileSystem files(posix_file_system());
  {
    MadeDirectories made(files);
    dir.write("file", "x");
    EXPECT_EQ(failure_of([&] { made.make(dir / "file/inner"); }).kind(), ErrorKind::io);
    posix_file_system().make_directories(dir / "outer");  // as far as it came
    files.inject(
        {.operation = Operation::make_directories, .path_contains = "outer", .error_number = ENOSPC});
    failure_of([&] { made.make(dir / "outer/inner"); });
  }
  EXPECT_EQ(posix_file_system().list(dir.path()), (Names{"file", "outer"}));
}

}  // namespace
}  // namespace cairn
