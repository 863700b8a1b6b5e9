// SPDX-License-Identifier: BSD-3-Clause
#include "storage/atomic_output.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>

#include "base/byte_writer.hpp"
#include "failure_of.hpp"
#include "storage/fault.hpp"
#include "temp_dir.hpp"

namespace cairn {
namespace {

FileSystem& files = posix_file_system();

using Names = std::vector<std::string>;

void fill(const AtomicOutput& output, std::string_view text) {
  const auto file = posix_file_system().open_write(output.temporary_path());
  file->write(0, as_bytes(text));
  file->close();
}

TEST(AtomicOutput, IsVisibleOnlyWhenPublished) {
  const TempDir dir;
  auto output = AtomicOutput::create(files, dir / "model.pth", 3, false);
  EXPECT_EQ(output.temporary_path(), dir / ".model.pth.cairn-part");
  EXPECT_EQ(files.status(output.temporary_path())->size, 3u);
  fill(output, "new");
  EXPECT_EQ(files.list(dir.path()), Names{".model.pth.cairn-part"});
  output.publish(true);
  EXPECT_EQ(files.list(dir.path()), Names{"model.pth"});
  EXPECT_EQ(dir.read("model.pth"), "new");
}

TEST(AtomicOutput, TheDestructorNeverPublishes) {
  const TempDir dir;
  dir.write("a", "old");
  { fill(AtomicOutput::create(files, dir / "a", 3, true), "new"); }
  EXPECT_EQ(files.list(dir.path()), Names{"a"});
  EXPECT_EQ(dir.read("a"), "old");
}

TEST(AtomicOutput, OverwritesOnlyOnRequest) {
  const TempDir dir;
  dir.write("a", "old");
  const auto error = failure_of([&] { AtomicOutput::create(files, dir / "a", 3, false); });
  EXPECT_EQ(error.kind(), ErrorKind::already_exists);
  EXPECT_EQ(error.hint(), "use --overwrite to replace it");
  auto output = AtomicOutput::create(files, dir / "a", 3, true);
  EXPECT_EQ(dir.read("a"), "old");
  fill(output, "new");
  output.publish(false);
  EXPECT_EQ(dir.read("a"), "new");
  EXPECT_EQ(files.list(dir.path()), Names{"a"});
}

TEST(AtomicOutput, AnOutputThatAppearedMeanwhileIsKept) {
  const TempDir dir;
  {
    auto output = AtomicOutput::create(files, dir / "a", 0, false);
    dir.write("a", "theirs");
    EXPECT_EQ(failure_of([&] { output.publish(true); }).kind(), ErrorKind::already_exists);
  }
  EXPECT_EQ(dir.read("a"), "theirs");
  EXPECT_EQ(files.list(dir.path()), Names{"a"});
}

TEST(AtomicOutput, ARunningWriterIsNeverDisturbed) {
  const TempDir dir;
  auto output = AtomicOutput::create(files, dir / "a", 0, false);
  for (const bool overwrite : {false, true}) {
    const auto error = failure_of([&] { AtomicOutput::create(files, dir / "a", 0, overwrite); });
    EXPECT_EQ(error.kind(), ErrorKind::already_exists);
    EXPECT_TRUE(contains(error, "another run is writing it")) << error.what();
  }
  output.publish(true);
  EXPECT_EQ(files.list(dir.path()), Names{"a"});
}

TEST(AtomicOutput, ALeftoverIsDiscardedOnlyOnRequest) {
  const TempDir dir;
  dir.write(".a.cairn-part", "half");
  const auto error = failure_of([&] { AtomicOutput::create(files, dir / "a", 3, false); });
  EXPECT_EQ(error.kind(), ErrorKind::already_exists);
  EXPECT_TRUE(contains(error, "--overwrite")) << error.what();
  EXPECT_EQ(dir.read(".a.cairn-part"), "half");
  auto output = AtomicOutput::create(files, dir / "a", 3, true);
  EXPECT_EQ(dir.read(".a.cairn-part"), std::string(3, '\0'));
}

TEST(AtomicOutput, NothingButAFileIsReplaced) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "directory");
  ASSERT_EQ(mkfifo((dir / "fifo").c_str(), 0600), 0);
  for (const char* name : {"directory", "fifo"}) {
    const auto error = failure_of([&] { AtomicOutput::create(files, dir / name, 0, true); });
    EXPECT_EQ(error.kind(), ErrorKind::io);
    EXPECT_TRUE(contains(error, "in the way")) << error.what();
  }
  EXPECT_EQ(failure_of([&] { AtomicOutput::create(files, "/dev/null", 0, true); }).kind(), ErrorKind::io);
  EXPECT_EQ(files.list(dir.path()), (Names{"directory", "fifo"}));
}

TEST(AtomicOutput, ATemporaryThatIsALinkIsNotFollowed) {
  const TempDir dir;
  std::filesystem::create_symlink(dir.write("victim", "keep"), dir / ".a.cairn-part");
  EXPECT_EQ(failure_of([&] { AtomicOutput::create(files, dir / "a", 0, true); }).kind(), ErrorKind::io);
  EXPECT_EQ(dir.read("victim"), "keep");
}

TEST(AtomicOutput, WritesWhereALinkPoints) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "real");
  std::filesystem::create_symlink("real/target", dir / "link");
  auto output = AtomicOutput::create(files, dir / "link", 3, false);
  EXPECT_EQ(output.temporary_path(), files.resolve(dir / "real") + "/.target.cairn-part");
  fill(output, "new");
  output.publish(true);
  EXPECT_EQ(dir.read("real/target"), "new");
  EXPECT_EQ(files.status(dir / "link", false)->type, FileType::symlink);
}

TEST(AtomicOutput, AFailureAtAnyStepLeavesTheOldOutputAlone) {
  for (const auto operation : {Operation::resolve, Operation::status, Operation::create, Operation::lock,
                               Operation::allocate, Operation::sync, Operation::rename}) {
    const TempDir dir;
    dir.write("a", "old");
    FaultyFileSystem faulty(files);
    faulty.inject({.operation = operation, .call_count = 1, .error_number = EIO});
    failure_of([&] { AtomicOutput::create(faulty, dir / "a", 3, true).publish(true); });
    EXPECT_EQ(dir.read("a"), "old");
    EXPECT_EQ(files.list(dir.path()), Names{"a"});
  }
}

TEST(AtomicOutput, SyncsOnlyWhenAsked) {
  const TempDir dir;
  FaultyFileSystem counting(files);
  AtomicOutput::create(counting, dir / "a", 3, false).publish(false);
  EXPECT_EQ(counting.count(Operation::sync).calls + counting.count(Operation::sync_directory).calls, 0u);
  AtomicOutput::create(counting, dir / "b", 3, false).publish(true);
  EXPECT_EQ(counting.count(Operation::sync).calls, 1u);
  EXPECT_EQ(counting.count(Operation::sync_directory).calls, 1u);
}

/// Ends of `count` children that all run `body` at the same time.
std::vector<int> race(int count, const std::function<int()>& body) {
  int gate[2];
  EXPECT_EQ(pipe(gate), 0);
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      close(gate[1]);
      char byte;
      if (read(gate[0], &byte, 1) != 0) _exit(99);
      _exit(body());
    }
    children.push_back(child);
  }
  close(gate[0]);
  close(gate[1]);
  std::vector<int> results;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    results.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }
  return results;
}

/// A counter that forked children share.
class SharedCount {
 public:
  SharedCount()
      : page_(mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                   0)),
        value_(new (page_) std::atomic<int>(0)) {}
  ~SharedCount() { munmap(page_, sizeof(std::atomic<int>)); }
  std::atomic<int>& value() { return *value_; }

 private:
  void* page_;
  std::atomic<int>* value_;
};

TEST(AtomicOutput, OfManyRunsAtOnceOneWrites) {
  constexpr int runs = 6;
  for (const bool leftover : {false, true}) {
    const TempDir dir;
    if (leftover) dir.write(".a.cairn-part", "half");
    SharedCount losers;
    const auto results = race(runs, [&] {
      try {
        auto output = AtomicOutput::create(files, dir / "a", 3, leftover);
        for (int i = 0; i < 2000 && losers.value() < runs - 1; ++i) usleep(10'000);
        const bool ours = files.status(output.temporary_path()).has_value();
        output.publish(false);
        return ours ? 0 : 1;
      } catch (const Error& error) {
        ++losers.value();
        return error.kind() == ErrorKind::already_exists ? 2 : 3;
      }
    });
    EXPECT_EQ(std::count(results.begin(), results.end(), 0), 1) << testing::PrintToString(results);
    EXPECT_EQ(std::count(results.begin(), results.end(), 2), runs - 1) << testing::PrintToString(results);
    EXPECT_EQ(files.list(dir.path()), Names{"a"});
  }
}

int end_of_child_signalled(int signal_number, const std::function<void()>& body) {
  int ready[2];
  EXPECT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    body();
    if (write(ready[1], "x", 1) != 1) _exit(98);
    while (true) pause();
  }
  close(ready[1]);
  char byte;
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  kill(child, signal_number);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : -1;
}

TEST(SignalCleanup, ASignalledProcessTakesItsTemporariesAlong) {
  for (const int signal_number : {SIGINT, SIGTERM}) {
    const TempDir dir;
    EXPECT_EQ(end_of_child_signalled(signal_number,
                                     [&] {
                                       install_signal_cleanup();
                                       for (const char* name : {"a", "b", "done"}) {
                                         auto* output = new AtomicOutput(
                                             AtomicOutput::create(files, dir / name, 0, false));
                                         if (std::string_view(name) == "done") output->publish(false);
                                       }
                                     }),
              signal_number);
    EXPECT_EQ(files.list(dir.path()), Names{"done"});
  }
}

TEST(SignalCleanup, WhatIsNoLongerRegisteredStays) {
  const TempDir dir;
  const auto path = dir.write("a", "");
  EXPECT_EQ(end_of_child_signalled(SIGTERM,
                                   [&] {
                                     install_signal_cleanup();
                                     RemoveOnSignal gone(path);
                                     RemoveOnSignal moved(std::move(gone));
                                     moved = {};
                                   }),
            SIGTERM);
  EXPECT_EQ(files.list(dir.path()), Names{"a"});
}

TEST(SignalCleanup, AnIgnoredSignalStaysIgnored) {
  const TempDir dir;
  const auto path = dir.write("a", "");
  EXPECT_EQ(end_of_child_signalled(SIGTERM,
                                   [&] {
                                     std::signal(SIGINT, SIG_IGN);
                                     install_signal_cleanup();
                                     static RemoveOnSignal registered(path);
                                     raise(SIGINT);
                                     if (!files.status(path)) _exit(97);
                                   }),
            SIGTERM);
  EXPECT_EQ(files.list(dir.path()), Names{});
}

}  // namespace
}  // namespace cairn
