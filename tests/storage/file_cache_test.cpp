// SPDX-License-Identifier: BSD-3-Clause
#include "storage/file_cache.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <thread>
#include <vector>

#include "failure_of.hpp"
#include "storage/fault.hpp"
#include "temp_dir.hpp"

namespace cairn {
namespace {

std::string content(File& file) {
  std::string text(file.size(), '?');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

struct OpenFileLimit {
  explicit OpenFileLimit(rlim_t limit) {
    getrlimit(RLIMIT_NOFILE, &before);
    const rlimit lowered{limit, before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &lowered);
  }
  ~OpenFileLimit() { setrlimit(RLIMIT_NOFILE, &before); }
  rlimit before;
};

TEST(FileCache, ReadsAThousandFilesUnderALimitOf256) {
  const TempDir dir;
  constexpr int count = 1000;
  for (int i = 0; i < count; ++i) dir.write(std::to_string(i), std::to_string(i));
  const OpenFileLimit limit(256);
  ASSERT_EQ(default_file_capacity(), 64u);
  FileCache cache(posix_file_system());
  for (int i = 0; i < count; ++i) {
    ASSERT_EQ(content(*cache.open(dir / std::to_string(i))), std::to_string(i));
  }
}

TEST(FileCache, CapacityIsBetween8And1024) {
  {
    const OpenFileLimit limit(31);
    EXPECT_EQ(default_file_capacity(), 8u);
  }
  const OpenFileLimit limit(1 << 16);
  EXPECT_LE(default_file_capacity(), 1024u);
}

TEST(FileCache, DropsTheFileUsedLongestAgo) {
  const TempDir dir;
  for (const char* name : {"a", "b", "c"}) dir.write(name, name);
  FaultyFileSystem files(posix_file_system());
  FileCache cache(files, 2);
  cache.open(dir / "a");
  cache.open(dir / "b");
  cache.open(dir / "a");
  cache.open(dir / "c");  // b goes
  cache.open(dir / "a");
  EXPECT_EQ(files.count(Operation::open_read).calls, 3u);
  cache.open(dir / "b");
  EXPECT_EQ(files.count(Operation::open_read).calls, 4u);
}

TEST(FileCache, AFileInUseStaysOpenWhenItFallsOut) {
  const TempDir dir;
  dir.write("a", "first");
  dir.write("b", "");
  FileCache cache(posix_file_system(), 1);
  const auto held = cache.open(dir / "a");
  cache.open(dir / "b");
  EXPECT_EQ(content(*held), "first");
}

TEST(FileCache, TriesAgainAfterAFailure) {
  const TempDir dir;
  FileCache cache(posix_file_system(), 2);
  EXPECT_EQ(failure_of([&] { cache.open(dir / "late"); }).kind(), ErrorKind::not_found);
  dir.write("late", "here");
  EXPECT_EQ(content(*cache.open(dir / "late")), "here");
}

TEST(FileCache, ServesManyThreads) {
  const TempDir dir;
  constexpr int file_count = 20;
  for (int i = 0; i < file_count; ++i) dir.write(std::to_string(i), std::to_string(i));
  FileCache cache(posix_file_system(), 3);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        const auto name = std::to_string((i * (t + 1)) % file_count);
        if (content(*cache.open(dir / name)) != name) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace cairn
