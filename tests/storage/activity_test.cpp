// SPDX-License-Identifier: BSD-3-Clause
#include "storage/activity.hpp"

#include <gtest/gtest.h>

#include "base/byte_writer.hpp"
#include "failure_of.hpp"
#include "temp_dir.hpp"

namespace cairn {
namespace {

TEST(Activity, TheOldestRunningOperationIsTold) {
  Activity activity;
  EXPECT_FALSE(activity.oldest());
  {
    const Activity::Running first(&activity, "reading", "a");
    { const Activity::Running second(&activity, "writing", "b"); }
    EXPECT_EQ(activity.ended(), 1u);
    EXPECT_EQ(activity.oldest()->what, "reading");
    EXPECT_EQ(activity.oldest()->path, "a");
  }
  EXPECT_EQ(activity.ended(), 2u);
  EXPECT_FALSE(activity.oldest());
}

TEST(Activity, FilesAndDirectoriesAreWatchedAndFailuresCount) {
  const TempDir dir;
  Activity activity;
  WatchedFileSystem files(posix_file_system(), activity);
  const auto file = files.create_exclusive(dir.path() + "/a");
  const auto before = activity.ended();
  file->write(0, Bytes(10));
  Bytes back(10);
  file->read(0, back);
  file->sync();
  EXPECT_EQ(activity.ended(), before + 3);
  failure_of([&] { files.open_read(dir.path() + "/absent"); });
  EXPECT_EQ(activity.ended(), before + 4);
  EXPECT_TRUE(file->try_lock_shared());
  files.make_directories(dir.path() + "/b");
  files.remove_directory(dir.path() + "/b");
  EXPECT_EQ(activity.ended(), before + 7);
  EXPECT_FALSE(activity.is_syncing());
}

TEST(Activity, TheKernelCopiesBetweenWatchedFiles) {
  const TempDir dir;
  dir.write("a", "0123456789");
  dir.write("b", "");
  Activity activity;
  WatchedFileSystem files(posix_file_system(), activity);
  const auto from = files.open_read(dir.path() + "/a"), to = files.open_write(dir.path() + "/b");
  if (to->copy_from(*from, 0, 0, 10) == 10) {
    EXPECT_EQ(dir.read("b"), "0123456789");
  }
  const auto plain = posix_file_system().open_read(dir.path() + "/a");
  EXPECT_EQ(to->copy_from(*plain, 0, 0, 0), 0u);
}

}  // namespace
}  // namespace cairn
