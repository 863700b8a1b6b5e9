// SPDX-License-Identifier: BSD-3-Clause
// Jobs that end on some rank, continued by another number of ranks.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "cairn/checkpoint.hpp"
#include "cairn/convert.hpp"
#include "dcp_fixture.hpp"
#include "failure_of.hpp"
#include "shared_directory.hpp"
#include "storage/fault.hpp"

namespace cairn {
namespace {

class LargerCheckpoint : public SharedDirectory {
 public:
  LargerCheckpoint()
      : SharedDirectory([](const TempDir& dir) {
          DcpFixture fixture;
          fixture.add({"rows", DType::int32, {2000, 1000}, split({2000, 1000}, 0, 4)});
          fixture.add({"columns", DType::int32, {1200, 900}, split({1200, 900}, 1, 4)});
          for (int i = 0; i < 100; ++i)
            fixture.add({"s" + std::to_string(i), DType::uint8, {i}, {{{{0}, {i}}}}});
          fixture.add_object("note", "hello");
          fixture.write(dir, "source");
        }) {}

  ConsolidateOptions options() const {
    ConsolidateOptions options;
    options.source = path() + "/source";
    options.destination = path() + "/out/m.pth";
    options.threads = 1;
    options.resume = true;
    options.journal_interval_s = 0.001;
    return options;
  }
  std::string take_output() const {
    const std::string output = mine()->read("out/m.pth");
    EXPECT_EQ(posix_file_system().list(path() + "/out"), std::vector<std::string>{"m.pth"});
    posix_file_system().unlink(path() + "/out/m.pth");
    return output;
  }
};

/// The ranks below `count` go on together.
void continue_by(int count, const ConsolidateOptions& options, std::uint64_t& resumed_bytes) {
  const auto some = world().split(world().rank() < count ? 0 : 1, 0);
  if (world().rank() < count) resumed_bytes += consolidate(*some, posix_file_system(), options).resumed_bytes;
  barrier(world());
}

// Operation × rank × how many go on.
TEST(Resume, AnyNumberOfRanksGoesOnWhereOneFailed) {
  const LargerCheckpoint checkpoint;
  std::string expected;
  if (world().rank() == 0) {
    const auto solo = solo_communicator();
    consolidate(*solo, posix_file_system(), checkpoint.options());
    expected = checkpoint.take_output();
  }
  for (const WriteMode mode : {WriteMode::shared, WriteMode::gather}) {
    std::uint64_t resumed_bytes = 0;
    auto options = checkpoint.options();
    options.write = mode;
    for (const Operation operation : {Operation::read, Operation::write, Operation::sync, Operation::close}) {
      for (int bad = 0; bad < (mode == WriteMode::gather ? 1 : world().size()); ++bad) {
        for (const int count : std::set{1, (world().size() + 1) / 2, world().size()}) {
          FaultyFileSystem files(posix_file_system());
          InjectedFault slow{.operation = Operation::write, .path_contains = ".cairn-part"};
          slow.delay = std::chrono::milliseconds(2);
          files.inject(slow);
          if (world().rank() == bad) {
            InjectedFault fault{
                .operation = operation,
                .path_contains = operation == Operation::read ? "distcp" : "m.pth.cairn-part"};
            fault.first_call =
                operation == Operation::write || operation == Operation::read ? 9 / (1 + world().size()) : 0;
            fault.error_number = EIO;
            files.inject(fault);
          }
          bool failed = false;
          try {
            consolidate(world(), files, options);
          } catch (const Error&) {
            failed = true;
          }
          if (failed) continue_by(count, options, resumed_bytes);
          barrier(world());
          if (world().rank() == 0) {
            EXPECT_TRUE(checkpoint.take_output() == expected);
          }
          barrier(world());
        }
      }
    }
    if (world().rank() == 0) {
      EXPECT_GT(resumed_bytes, 0u);
    }
  }
}

// The same of a DCP directory: which rank fails, at what, how many go on.
TEST(Resume, AnyNumberOfRanksGoesOnWithADirectory) {
  const LargerCheckpoint checkpoint;
  ConvertOptions options;
  static_cast<ConsolidateOptions&>(options) = checkpoint.options();
  options.destination = checkpoint.path() + "/ckpt";
  options.ranks = 3;
  const auto take_files = [&] {
    std::map<std::string, std::string> files;
    for (const auto& name : posix_file_system().list(options.destination)) {
      files[name] = checkpoint.mine()->read("ckpt/" + name);
      posix_file_system().unlink(options.destination + "/" + name);
    }
    return files;
  };
  std::map<std::string, std::string> expected;
  if (world().rank() == 0) {
    const auto solo = solo_communicator();
    reshard(*solo, posix_file_system(), options);
    expected = take_files();
    EXPECT_EQ(expected.size(), 4u);
  }
  barrier(world());
  std::uint64_t resumed_bytes = 0;
  const auto fail_and_go_on = [&](WriteMode mode, Operation operation, int bad) {
    options.write = mode;
    for (const int count : std::set{1, world().size()}) {
      FaultyFileSystem files(posix_file_system());
      InjectedFault slow{.operation = Operation::write, .path_contains = "ckpt/__"};
      slow.delay = std::chrono::milliseconds(2);
      files.inject(slow);
      if (world().rank() == bad) {
        InjectedFault fault{.operation = operation,
                            .path_contains = operation == Operation::read ? "source/__" : "ckpt/__"};
        fault.first_call = operation == Operation::sync ? 0 : 9 / (1 + world().size());
        fault.error_number = EIO;
        files.inject(fault);
      }
      bool failed = false;
      try {
        reshard(world(), files, options);
      } catch (const Error&) {
        failed = true;
      }
      if (failed) {
        const auto some = world().split(world().rank() < count ? 0 : 1, 0);
        if (world().rank() < count)
          resumed_bytes += reshard(*some, posix_file_system(), options).resumed_bytes;
      }
      barrier(world());
      if (world().rank() == 0) {
        EXPECT_TRUE(take_files() == expected) << static_cast<int>(operation) << ", rank " << bad;
      }
      barrier(world());
    }
  };
  for (const Operation operation : {Operation::read, Operation::write, Operation::sync}) {
    for (int bad = 0; bad < world().size(); ++bad) fail_and_go_on(WriteMode::shared, operation, bad);
    fail_and_go_on(WriteMode::gather, operation, 0);
  }
  if (world().rank() == 0) {
    EXPECT_GT(resumed_bytes, 0u);
  }
}

TEST(Resume, WhatOtherRanksFinishedIsInTheJournal) {
  const LargerCheckpoint checkpoint;
  const auto options = checkpoint.options();
  FaultyFileSystem files(posix_file_system());
  if (world().rank() == 0) {
    InjectedFault fault{.operation = Operation::rename, .path_contains = "m.pth.cairn-part"};
    fault.error_number = EIO;
    files.inject(fault);
  }
  const Error error = failure_of([&] { consolidate(world(), files, options); });
  EXPECT_TRUE(contains(error, "the same command goes on")) << error.what();
  const auto report = consolidate(world(), posix_file_system(), options);
  EXPECT_GT(report.resumed_bytes, 11u << 20);
  if (world().rank() == 0) checkpoint.take_output();
}

}  // namespace
}  // namespace cairn
