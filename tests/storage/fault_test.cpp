// SPDX-License-Identifier: BSD-3-Clause
#include "storage/fault.hpp"

#include <gtest/gtest.h>

#include <cerrno>

#include "base/byte_writer.hpp"
#include "failure_of.hpp"
#include "temp_dir.hpp"

namespace cairn {
namespace {

std::string read_text(File& file, std::uint64_t byte_offset, std::size_t length) {
  std::string text(length, '?');
  file.read(byte_offset, std::as_writable_bytes(std::span(text)));
  return text;
}

TEST(FaultyFileSystem, PassesEverythingOnAndCounts) {
  const TempDir dir;
  FaultyFileSystem files(posix_file_system());
  files.make_directories(dir / "sub");
  const auto file = files.create_exclusive(dir / "sub/a");
  file->allocate(6);
  file->write(0, as_bytes("abcdef"));
  EXPECT_TRUE(file->try_lock());
  EXPECT_TRUE(file->try_lock_shared());
  files.make_directories(dir / "gone");
  files.remove_directory(dir / "gone");
  EXPECT_EQ(read_text(*file, 2, 3), "cde");
  EXPECT_EQ(read_text(*file, 0, 1), "a");
  file->sync();
  file->close();
  files.rename(dir / "sub/a", dir / "b");
  files.sync_directory(dir.path());
  EXPECT_EQ(files.status(dir / "b")->size, 6u);
  EXPECT_EQ(files.list(dir.path()), (std::vector<std::string>{"b", "sub"}));
  EXPECT_EQ(files.count(Operation::write).bytes, 6u);
  EXPECT_EQ(files.count(Operation::read).calls, 2u);
  EXPECT_EQ(files.count(Operation::read).bytes, 4u);
  EXPECT_EQ(files.count(Operation::rename).calls, 1u);
}

TEST(FaultyFileSystem, FailsTheChosenCallsOnTheChosenPaths) {
  const TempDir dir;
  dir.write("rank0", "0");
  dir.write("rank1", "1");
  FaultyFileSystem files(posix_file_system());
  files.inject({.operation = Operation::open_read,
                .path_contains = "rank1",
                .first_call = 1,
                .call_count = 2,
                .error_number = EIO});
  files.open_read(dir / "rank0");
  files.open_read(dir / "rank1");
  files.open_read(dir / "rank0");
  for (int i = 0; i < 2; ++i) {
    const auto error = failure_of([&] { files.open_read(dir / "rank1"); });
    EXPECT_EQ(error.kind(), ErrorKind::io);
    EXPECT_TRUE(contains(error, "open failed: Input/output error")) << error.what();
  }
  files.open_read(dir / "rank1");
}

TEST(FaultyFileSystem, HidesAFileUntilItIsLate) {
  const TempDir dir;
  dir.write("late", "x");
  FaultyFileSystem files(posix_file_system());
  for (const auto operation : {Operation::open_write, Operation::status}) {
    files.inject({.operation = operation, .path_contains = "late", .call_count = 2, .error_number = ENOENT});
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(failure_of([&] { files.open_write(dir / "late"); }).kind(), ErrorKind::not_found);
    EXPECT_EQ(files.status(dir / "late"), std::nullopt);
  }
  files.open_write(dir / "late");
  EXPECT_TRUE(files.status(dir / "late").has_value());
}

TEST(FaultyFileSystem, ADiskFullStoresHalfOfTheBytes) {
  const TempDir dir;
  FaultyFileSystem files(posix_file_system());
  files.inject({.operation = Operation::write, .first_call = 1, .error_number = ENOSPC});
  const auto file = files.create_exclusive(dir / "a");
  file->write(0, as_bytes("abcd"));
  const auto error = failure_of([&] { file->write(4, as_bytes("efgh")); });
  EXPECT_TRUE(contains(error, "disk full: 4 bytes needed")) << error.what();
  EXPECT_EQ(dir.read("a"), "abcdef");
  EXPECT_EQ(files.count(Operation::write).bytes, 4u);
}

TEST(FaultyFileSystem, DamagesWhatIsRead) {
  const TempDir dir;
  FaultyFileSystem files(posix_file_system());
  const auto file = files.open_read(dir.write("a", "abcd"));
  files.inject({.operation = Operation::read, .flip_bit_of_byte = 2});
  EXPECT_EQ(read_text(*file, 0, 4), "abbd");
  EXPECT_EQ(read_text(*file, 2, 1), "b");
  EXPECT_EQ(read_text(*file, 0, 2), "ab");
  EXPECT_EQ(read_text(*file, 3, 1), "d");
  files.heal();
  EXPECT_EQ(read_text(*file, 0, 4), "abcd");
  files.inject({.operation = Operation::read, .short_read = true});
  EXPECT_EQ(failure_of([&] { read_text(*file, 0, 4); }).kind(), ErrorKind::corrupt);
}

TEST(FaultyFileSystem, FailsEveryStepOfAWriter) {
  const TempDir dir;
  FaultyFileSystem files(posix_file_system());
  const auto file = files.create_exclusive(dir / "a");
  for (const auto operation : {Operation::allocate, Operation::sync, Operation::close, Operation::rename,
                               Operation::unlink, Operation::sync_directory, Operation::create}) {
    files.inject({.operation = operation, .error_number = EIO});
  }
  EXPECT_EQ(failure_of([&] { file->allocate(1); }).kind(), ErrorKind::io);
  EXPECT_EQ(failure_of([&] { file->sync(); }).kind(), ErrorKind::io);
  EXPECT_EQ(failure_of([&] { file->close(); }).kind(), ErrorKind::io);
  EXPECT_EQ(failure_of([&] { files.rename(dir / "a", dir / "b"); }).kind(), ErrorKind::io);
  EXPECT_EQ(failure_of([&] { files.rename_no_replace(dir / "a", dir / "b"); }).kind(), ErrorKind::io);
  EXPECT_EQ(failure_of([&] { files.unlink(dir / "a"); }).kind(), ErrorKind::io);
  EXPECT_EQ(failure_of([&] { files.sync_directory(dir.path()); }).kind(), ErrorKind::io);
  EXPECT_EQ(failure_of([&] { files.create_exclusive(dir / "b"); }).kind(), ErrorKind::io);
  EXPECT_EQ(posix_file_system().list(dir.path()), std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace cairn
