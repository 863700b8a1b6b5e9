// SPDX-License-Identifier: BSD-3-Clause
#include "storage/read_pin.hpp"

#include <gtest/gtest.h>

#include <cerrno>

#include "failure_of.hpp"
#include "storage/fault.hpp"
#include "storage/forwarding.hpp"
#include "temp_dir.hpp"

namespace cairn {
namespace {

FileSystem& files = posix_file_system();

TEST(ReadPin, AFileThatSomebodyReadsIsNotLocked) {
  const TempDir dir;
  const std::string file = dir.write("a", "x");
  {
    const ReadPin one = ReadPin::take(files, file), other = ReadPin::take(files, file);
    EXPECT_TRUE(one.is_held() && other.is_held());
    EXPECT_EQ(exclusive_lock(files, file), nullptr);
  }
  const auto lock = exclusive_lock(files, file);
  ASSERT_NE(lock, nullptr);
  EXPECT_EQ(exclusive_lock(files, file), nullptr);
}

TEST(ReadPin, ALockedFileIsReadWithoutAPin) {
  const TempDir dir;
  const std::string file = dir.write("a", "x");
  const auto lock = exclusive_lock(files, file);
  EXPECT_FALSE(ReadPin::take(files, file).is_held());
}

TEST(ReadPin, WhatCannotBeOpenedIsNotPinned) {
  const TempDir dir;
  EXPECT_FALSE(ReadPin::take(files, dir / "absent").is_held());
  EXPECT_FALSE(ReadPin::take(files, dir.path()).is_held());
  const std::string file = dir.write("a", "x");
  FaultyFileSystem faulty(files);
  faulty.inject({.operation = Operation::lock, .error_number = EIO});
  EXPECT_FALSE(ReadPin::take(faulty, file).is_held());
}

// The name means another file when the lock is there: the one that was opened is on its way out.
TEST(ReadPin, AFileThatWasExchangedIsPinnedAnew) {
  const TempDir dir;
  const std::string file = dir.write("a", "x");
  dir.write("b", "y");
  class Exchanging final : public ForwardingFileSystem {
   public:
    explicit Exchanging(const TempDir& dir) : ForwardingFileSystem(posix_file_system()), dir_(dir) {}
    std::unique_ptr<File> open_read(const std::string& path) override {
      auto file = inner_.open_read(path);
      if (opened++ == 0) inner_.rename(dir_ / "b", path);
      return file;
    }
    int opened = 0;

   private:
    const TempDir& dir_;
  } exchanging(dir);
  const ReadPin pin = ReadPin::take(exchanging, file);
  EXPECT_TRUE(pin.is_held());
  EXPECT_EQ(exchanging.opened, 2);
  EXPECT_EQ(exclusive_lock(files, file), nullptr);
}

TEST(ReadPin, TheLockOfAFileThatWasExchangedIsRefused) {
  const TempDir dir;
  const std::string file = dir.write("a", "x");
  FaultyFileSystem faulty(files);
  faulty.inject({.operation = Operation::status, .error_number = ENOENT});
  EXPECT_EQ(failure_of([&] { exclusive_lock(faulty, file); }).kind(), ErrorKind::not_found);
}

}  // namespace
}  // namespace cairn
