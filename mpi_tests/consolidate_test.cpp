// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "cairn/checkpoint.hpp"
#include "dcp_fixture.hpp"
#include "failure_of.hpp"
#include "shared_directory.hpp"
#include "storage/fault.hpp"

namespace cairn {
namespace {

/// A checkpoint that rank 0 makes and all ranks see.
class SharedCheckpoint : public SharedDirectory {
 public:
  SharedCheckpoint()
      : SharedDirectory([](const TempDir& dir) {
          DcpFixture fixture;
          const Shape shape{1200, 900};
          fixture.add({"rows", DType::int32, shape, split(shape, 0, 4)});
          fixture.add({"columns", DType::int32, shape, split(shape, 1, 4)});
          for (int i = 0; i < 200; ++i)
            fixture.add({"s" + std::to_string(i), DType::uint8, {i}, {{{{0}, {i}}}}});
          fixture.add_object("note", "hello");
          fixture.write(dir, "source");
        }) {}

  ConsolidateOptions options() const {
    ConsolidateOptions options;
    options.source = path() + "/source";
    options.destination = path() + "/out.pth";
    options.overwrite = true;
    options.sync = false;
    options.threads = 1;
    return options;
  }
  /// On rank 0.
  std::string output() const { return mine()->read("out.pth"); }
  std::vector<std::string> left() const { return posix_file_system().list(path()); }
  void put_old_output() const {
    if (mine() != nullptr) mine()->write("out.pth", "the old one");
    barrier(world());
  }
};

TEST(Consolidate, AnyNumberOfRanksWritesTheBytesOfOne) {
  const SharedCheckpoint checkpoint;
  const auto report = consolidate(world(), posix_file_system(), checkpoint.options());
  EXPECT_EQ(report.ranks, world().size());
  EXPECT_EQ(report.written_bytes, report.outputs.at(0).bytes);
  if (world().rank() == 0) {
    const std::string together = checkpoint.output();
    const auto solo = solo_communicator();
    consolidate(*solo, posix_file_system(), checkpoint.options());
    EXPECT_TRUE(checkpoint.output() == together);
  }
}

TEST(Consolidate, RanksThatDisagreeAboutResumingAreTold) {
  const SharedCheckpoint checkpoint;
  checkpoint.put_old_output();
  auto options = checkpoint.options();
  options.resume = world().rank() == 0;
  if (world().size() == 1) return;
  const Error error = failure_of([&] { consolidate(world(), posix_file_system(), options); });
  EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
  EXPECT_TRUE(contains(error, "others do not")) << error.what();
  if (world().rank() == 0) {
    EXPECT_EQ(checkpoint.output(), "the old one");
  }
}

// Step x rank: whatever fails on whichever rank, all ranks throw the same and the old output stays.
TEST(Consolidate, AFailureOnAnyRankAtAnyStepIsEverybodys) {
  const SharedCheckpoint checkpoint;
  auto options = checkpoint.options();
  options.sync = true;
  for (const Operation operation : {Operation::open_read, Operation::read, Operation::open_write,
                                    Operation::write, Operation::sync, Operation::close}) {
    for (int bad = 0; bad < world().size(); ++bad) {
      checkpoint.put_old_output();
      FaultyFileSystem files(posix_file_system());
      if (world().rank() == bad) {
        InjectedFault fault{};
        fault.operation = operation;
        fault.error_number = EIO;
        files.inject(fault);
      }
      const Error error = failure_of([&] { consolidate(world(), files, options); });
      EXPECT_FALSE(error.message().empty());
      for (const Bytes& theirs : world().gather(as_bytes(error.message()), 0)) {
        EXPECT_EQ(as_text(theirs), error.message());
      }
      options.stall_timeout_s = bad % 2 == 0 ? 3600 : 0;  // of the next: then work runs on another thread
      if (world().rank() == 0) {
        EXPECT_EQ(checkpoint.output(), "the old one");
        EXPECT_EQ(checkpoint.left(), (std::vector<std::string>{"out.pth", "source"})) << error.what();
      }
    }
  }
}

// Rank 0 hears of all bytes, with or without a thread for the work.
TEST(Consolidate, ProgressIsThatOfAllRanks) {
  const SharedCheckpoint checkpoint;
  auto options = checkpoint.options();
  FaultyFileSystem files(posix_file_system());
  InjectedFault slow{};
  slow.operation = Operation::write;
  slow.path_contains = ".cairn-part";
  slow.delay = std::chrono::milliseconds(150);
  files.inject(slow);
  for (const double stall_timeout_s : {0.0, 3600.0}) {
    std::vector<Progress> told;
    options.stall_timeout_s = stall_timeout_s;
    options.progress = nullptr;
    if (world().rank() == 0) options.progress = [&](const Progress& progress) { told.push_back(progress); };
    const auto report = consolidate(world(), files, options);
    if (world().rank() != 0) continue;
    ASSERT_GE(told.size(), 2u);
    EXPECT_EQ(told.back().done_bytes, told.back().total_bytes);
    EXPECT_GT(told.back().total_bytes, report.written_bytes * 9 / 10) << "of all ranks, but head and tail";
    for (std::size_t i = 1; i < told.size(); ++i) EXPECT_GE(told[i].done_bytes, told[i - 1].done_bytes);
  }
}

// Network file systems show a new file late on other nodes.
TEST(Consolidate, ATemporaryThatAppearsLateIsWaitedFor) {
  const SharedCheckpoint checkpoint;
  FaultyFileSystem files(posix_file_system());
  if (world().rank() == world().size() - 1) {
    InjectedFault fault{};
    fault.operation = Operation::open_write;
    fault.path_contains = ".cairn-part";
    fault.call_count = 5;
    fault.error_number = ENOENT;
    files.inject(fault);
  }
  consolidate(world(), files, checkpoint.options());
}

// What exists may differ between nodes for a while: one rank asks, the others are told.
TEST(Consolidate, OnlyTheCoordinatorAsksWhatIsThere) {
  const SharedCheckpoint checkpoint;
  FaultyFileSystem files(posix_file_system());
  if (world().rank() != 0) {
    for (const Operation operation : {Operation::status, Operation::list, Operation::resolve}) {
      InjectedFault fault{};
      fault.operation = operation;
      fault.error_number = operation == Operation::status ? ENOENT : EIO;
      files.inject(fault);
    }
  }
  const auto report = consolidate(world(), files, checkpoint.options());
  EXPECT_EQ(report.written_bytes, report.outputs.at(0).bytes);
}

}  // namespace
}  // namespace cairn
