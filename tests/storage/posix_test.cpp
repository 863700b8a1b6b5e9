// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "base/byte_writer.hpp"
#include "failure_of.hpp"
#include "storage/posix_file.hpp"
#include "temp_dir.hpp"

namespace cairn {
namespace {

FileSystem& files = posix_file_system();

std::string read_text(File& file, std::uint64_t byte_offset, std::size_t length) {
  std::string text(length, '?');
  file.read(byte_offset, std::as_writable_bytes(std::span(text)));
  return text;
}

/// Runs `body` in a forked child as an unprivileged user; true when it returned true there.
bool as_nobody(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t nobody = 65534;
    const bool ready = getuid() != 0 || (setgid(nobody) == 0 && setuid(nobody) == 0);
    bool held = false;
    try {
      held = ready && body();
    } catch (...) {
    }
    _exit(held ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(PosixFile, WritesAndReadsAtAnyOffset) {
  const TempDir dir;
  const auto file = files.create_exclusive(dir / "a");
  file->write(3, as_bytes("def"));
  file->write(0, as_bytes("abc"));
  EXPECT_EQ(file->size(), 6u);
  EXPECT_EQ(read_text(*file, 1, 4), "bcde");
  EXPECT_EQ(read_text(*file, 6, 0), "");
  file->sync();
  file->close();
  EXPECT_EQ(dir.read("a"), "abcdef");
}

TEST(PosixFile, TellsAShortReadFromAnError) {
  const TempDir dir;
  const auto file = files.open_read(dir.write("a", "abc"));
  EXPECT_EQ(read_text(*file, 0, 3), "abc");
  const auto error = failure_of([&] { read_text(*file, 1, 3); });
  EXPECT_EQ(error.kind(), ErrorKind::corrupt);
  EXPECT_TRUE(contains(error, "short read: 3 bytes expected at byte 1, 2 there")) << error.what();
}

TEST(PosixFile, ReachesBeyondFourGibibytes) {
  const TempDir dir;
  const auto file = files.create_exclusive(dir / "sparse");
  const std::uint64_t far = (std::uint64_t{1} << 32) + 5;
  file->write(far, as_bytes("x"));
  EXPECT_EQ(file->size(), far + 1);
  EXPECT_EQ(read_text(*file, far - 1, 2), std::string("\0x", 2));
}

TEST(PosixFile, HasTheKernelCopyBetweenFiles) {
  const TempDir dir;
  const auto source = files.open_read(dir.write("source", "0123456789"));
  const auto target = files.create_exclusive(dir / "target");
  target->write(0, as_bytes("abcdefgh"));
  const auto copied = target->copy_from(*source, 2, 3, 4);
  if (copied == 0) GTEST_SKIP() << "this file system does not copy";
  EXPECT_EQ(copied, 4u);
  EXPECT_EQ(dir.read("target"), "abc2345h");
  EXPECT_EQ(target->copy_from(*source, 8, 0, 5), 2u);  // the source ends
  EXPECT_EQ(dir.read("target"), "89c2345h");
}

TEST(PosixFile, AllocatesToTheSizeAndShrinks) {
  const TempDir dir;
  const auto file = files.create_exclusive(dir / "a");
  for (const std::uint64_t size : {0u, 1u, 1u << 20, 5000u, 0u}) {
    file->allocate(size);
    EXPECT_EQ(file->size(), size);
  }
}

TEST(PosixFile, RefusesOffsetsThatNoFileCanHave) {
  const TempDir dir;
  const auto file = files.create_exclusive(dir / "a");
  EXPECT_EQ(failure_of([&] { read_text(*file, ~std::uint64_t{0}, 1); }).kind(), ErrorKind::io);
  EXPECT_EQ(failure_of([&] { file->allocate(~std::uint64_t{0}); }).kind(), ErrorKind::io);
}

TEST(PosixFile, SaysDiskFullOnWriting) {
  const int descriptor = ::open("/dev/full", O_RDWR | O_CLOEXEC);
  if (descriptor < 0) GTEST_SKIP() << "no /dev/full";
  PosixFile file("/dev/full", descriptor);
  const auto error = failure_of([&] { file.write(0, as_bytes("abc")); });
  EXPECT_EQ(error.kind(), ErrorKind::io);
  EXPECT_TRUE(contains(error, "/dev/full: disk full: 3 bytes needed")) << error.what();
}

TEST(PosixFile, SaysDiskFullWithBothNumbersOnAllocating) {
  const TempDir dir;
  if (mount("tmpfs", dir.path().c_str(), "tmpfs", 0, "size=1m") != 0) GTEST_SKIP() << "cannot mount a tmpfs";
  {
    const auto file = files.create_exclusive(dir / "a");
    const auto error = failure_of([&] { file->allocate((1 << 20) + 1); });
    EXPECT_TRUE(contains(error, "disk full: 1048577 bytes needed, 1048576 available")) << error.what();
    file->allocate(1 << 20);
    EXPECT_EQ(files.free_bytes(dir.path()), 0u);
    EXPECT_TRUE(contains(failure_of([&] { file->write(1 << 20, as_bytes("x")); }), "disk full"));
  }
  EXPECT_EQ(files.type_name(dir.path()), "tmpfs");
  umount(dir.path().c_str());
}

TEST(PosixFile, LocksOncePerDescriptor) {
  const TempDir dir;
  auto first = files.create_exclusive(dir / "a");
  const auto second = files.open_write(dir / "a");
  EXPECT_TRUE(first->try_lock());
  EXPECT_TRUE(first->try_lock());
  EXPECT_FALSE(second->try_lock());
  first->close();
  EXPECT_TRUE(second->try_lock());
}

TEST(PosixFile, SharesALockAmongReaders) {
  const TempDir dir;
  dir.write("a", "x");
  auto first = files.open_read(dir / "a"), second = files.open_read(dir / "a");
  const auto writer = files.open_write(dir / "a");
  EXPECT_TRUE(first->try_lock_shared());
  EXPECT_TRUE(second->try_lock_shared());
  EXPECT_FALSE(writer->try_lock());
  first->close();
  EXPECT_FALSE(writer->try_lock());
  second->close();
  EXPECT_TRUE(writer->try_lock());
  EXPECT_FALSE(files.open_read(dir / "a")->try_lock_shared());
}

TEST(PosixFile, ClosesOnce) {
  const TempDir dir;
  const auto file = files.create_exclusive(dir / "a");
  file->close();
  file->close();
  EXPECT_EQ(failure_of([&] { file->write(0, as_bytes("x")); }).kind(), ErrorKind::io);
}

TEST(PosixFileSystem, RemovesEmptyDirectoriesOnly) {
  const TempDir dir;
  dir.write("full/a", "x");
  files.make_directories(dir / "empty");
  files.remove_directory(dir / "empty");
  EXPECT_FALSE(files.status(dir / "empty"));
  EXPECT_EQ(failure_of([&] { files.remove_directory(dir / "full"); }).kind(), ErrorKind::io);
  EXPECT_EQ(failure_of([&] { files.remove_directory(dir / "empty"); }).kind(), ErrorKind::not_found);
}

TEST(PosixFileSystem, CreatesOnlyWhatIsNotThere) {
  const TempDir dir;
  files.create_exclusive(dir / "a");
  std::filesystem::create_symlink(dir / "nowhere", dir / "dangling");
  EXPECT_EQ(failure_of([&] { files.create_exclusive(dir / "a"); }).kind(), ErrorKind::already_exists);
  EXPECT_EQ(failure_of([&] { files.create_exclusive(dir / "dangling"); }).kind(), ErrorKind::already_exists);
  EXPECT_EQ(failure_of([&] { files.create_exclusive(dir / "no/a"); }).kind(), ErrorKind::not_found);
}

TEST(PosixFileSystem, OpensNothingButRegularFiles) {
  const TempDir dir;
  ASSERT_EQ(mkfifo((dir / "fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink(dir.write("a", "abc"), dir / "link");
  for (const auto& [path, what] : {std::pair(dir.path(), "a directory"), std::pair(dir / "fifo", "a FIFO"),
                                   std::pair(std::string("/dev/null"), "a device")}) {
    for (const bool writing : {false, true}) {
      const auto error = failure_of([&] { writing ? files.open_write(path) : files.open_read(path); });
      EXPECT_EQ(error.kind(), ErrorKind::io);
      EXPECT_TRUE(contains(error, path + ": a regular file is needed, this is " + what)) << error.what();
    }
  }
  EXPECT_EQ(read_text(*files.open_read(dir / "link"), 0, 3), "abc");
  EXPECT_TRUE(contains(failure_of([&] { files.open_write(dir / "link"); }), "a symbolic link"));
  EXPECT_EQ(failure_of([&] { files.open_read(dir / "none"); }).kind(), ErrorKind::not_found);
  EXPECT_EQ(failure_of([&] { files.open_read(dir / "a/b"); }).kind(), ErrorKind::not_found);
}

TEST(PosixFileSystem, StatusFollowsLinksOnRequest) {
  const TempDir dir;
  dir.write("a", "abc");
  std::filesystem::create_symlink("a", dir / "link");
  std::filesystem::create_symlink("nowhere", dir / "dangling");
  EXPECT_EQ(files.status(dir / "link")->type, FileType::regular);
  EXPECT_EQ(files.status(dir / "link")->size, 3u);
  EXPECT_EQ(files.status(dir / "link")->inode, files.open_read(dir / "a")->status().inode);
  EXPECT_EQ(files.status(dir / "link", false)->type, FileType::symlink);
  EXPECT_EQ(files.status(dir / "dangling"), std::nullopt);
  EXPECT_EQ(files.status(dir / "dangling", false)->type, FileType::symlink);
  EXPECT_EQ(files.status(dir / "a/b"), std::nullopt);
  EXPECT_EQ(files.status(dir.path())->type, FileType::directory);
  EXPECT_EQ(files.status("/dev/null")->type, FileType::other);
}

TEST(PosixFileSystem, ListsSortedByBytes) {
  const TempDir dir;
  for (const char* name : {"b", "\xff", "a", ".hidden", "B"}) dir.write(name, "");
  EXPECT_EQ(files.list(dir.path()), (std::vector<std::string>{".hidden", "B", "a", "b", "\xff"}));
  EXPECT_EQ(failure_of([&] { files.list(dir / "none"); }).kind(), ErrorKind::not_found);
}

TEST(PosixFileSystem, MakesAllMissingDirectories) {
  const TempDir dir;
  files.make_directories(dir / "a/b//c/");
  files.make_directories(dir / "a/b/c");
  EXPECT_EQ(files.status(dir / "a/b/c")->type, FileType::directory);
  dir.write("file", "");
  EXPECT_TRUE(contains(failure_of([&] { files.make_directories(dir / "file/x"); }), "this is a file"));
}

TEST(PosixFileSystem, RenamesOverAFileOnlyWhenAsked) {
  const TempDir dir;
  dir.write("new", "new");
  dir.write("old", "old");
  const auto error = failure_of([&] { files.rename_no_replace(dir / "new", dir / "old"); });
  EXPECT_EQ(error.kind(), ErrorKind::already_exists);
  EXPECT_EQ(dir.read("old"), "old");
  files.rename(dir / "new", dir / "old");
  EXPECT_EQ(dir.read("old"), "new");
  files.rename_no_replace(dir / "old", dir / "third");
  EXPECT_EQ(files.list(dir.path()), std::vector<std::string>{"third"});
  EXPECT_EQ(failure_of([&] { files.rename(dir / "none", dir / "x"); }).kind(), ErrorKind::not_found);
  EXPECT_EQ(failure_of([&] { files.rename_no_replace(dir / "none", dir / "x"); }).kind(),
            ErrorKind::not_found);
}

TEST(PosixFileSystem, ResolvesChainsOfLinks) {
  const TempDir dir;
  const auto real = files.resolve(dir.path());
  std::filesystem::create_directory(dir / "sub");
  std::filesystem::create_symlink("sub/two", dir / "one");
  std::filesystem::create_symlink("../new", dir / "sub/two");
  EXPECT_EQ(files.resolve(dir / "one"), real + "/new");
  dir.write("new", "");
  EXPECT_EQ(files.resolve(dir / "one"), real + "/new");
  EXPECT_EQ(files.resolve(dir / "sub/../absent/"), real + "/absent");
  EXPECT_EQ(files.resolve("/"), "/");
  EXPECT_EQ(files.resolve("/absent"), "/absent");
  EXPECT_EQ(failure_of([&] { files.resolve(dir / "no/file"); }).kind(), ErrorKind::not_found);
  EXPECT_EQ(failure_of([&] { files.resolve(""); }).kind(), ErrorKind::not_found);
}

TEST(PosixFileSystem, ALoopOfLinksIsAnError) {
  const TempDir dir;
  std::filesystem::create_symlink("b", dir / "a");
  std::filesystem::create_symlink("a", dir / "b");
  EXPECT_EQ(failure_of([&] { files.resolve(dir / "a"); }).kind(), ErrorKind::io);
}

TEST(PosixFileSystem, KnowsWhereItMayWrite) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "closed");
  ASSERT_EQ(chmod(dir.path().c_str(), 0777), 0);
  ASSERT_EQ(chmod((dir / "closed").c_str(), 0555), 0);
  EXPECT_TRUE(as_nobody([&] { return files.writable_directory(dir.path()); }));
  EXPECT_TRUE(as_nobody([&] { return !files.writable_directory(dir / "closed"); }));
  EXPECT_EQ(failure_of([&] { files.writable_directory(dir / "none"); }).kind(), ErrorKind::not_found);
}

TEST(PosixFileSystem, AReadOnlyMountIsNotWritableEvenForRoot) {
  const TempDir dir;
  if (mount("tmpfs", dir.path().c_str(), "tmpfs", MS_RDONLY, "") != 0) GTEST_SKIP() << "cannot mount a tmpfs";
  EXPECT_FALSE(files.writable_directory(dir.path()));
  umount(dir.path().c_str());
}

TEST(PosixFileSystem, ReportsRoomAndType) {
  const TempDir dir;
  EXPECT_GT(files.free_bytes(dir.path()), 0u);
  EXPECT_FALSE(files.type_name(dir.path()).empty());
  EXPECT_EQ(files.type_name("/proc"), "0x9fa0");
  EXPECT_EQ(failure_of([&] { files.free_bytes(dir / "none"); }).kind(), ErrorKind::not_found);
}

TEST(PosixFileSystem, DescriptorsDoNotSurviveExec) {
  const TempDir dir;
  const auto file = files.create_exclusive(dir / "a");
  const auto reader = files.open_read(dir / "a");
  const std::string command = "ls -l /proc/self/fd | grep -q '" + (dir / "a") + "'";
  EXPECT_NE(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace cairn
