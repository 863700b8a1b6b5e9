// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <cerrno>

#include "cairn/checkpoint.hpp"
#include "dcp_fixture.hpp"
#include "failure_of.hpp"
#include "shared_directory.hpp"
#include "storage/fault.hpp"

namespace cairn {
namespace {

/// A checkpoint that rank 0 makes and all ranks see: one tensor of several slices, many small ones.
class SharedCheckpoint : public SharedDirectory {
 public:
  SharedCheckpoint()
      : SharedDirectory([](const TempDir& dir) {
          DcpFixture fixture;
          fixture.add({"large", DType::uint8, {38 << 20}, {{{{0}, {38 << 20}}, "large.distcp"}}});
          for (int i = 0; i < 300; ++i) {
            fixture.add({"s" + std::to_string(i),
                         DType::int16,
                         {i},
                         {{{{0}, {i}}, "small" + std::to_string(i % 3)}}});
          }
          fixture.add_object("note", "hello");
          fixture.write(dir, "c");
        }) {}

  void flip(const std::string& file, std::initializer_list<std::size_t> places) {
    if (mine() != nullptr) {
      std::string bytes = mine()->read("c/" + file);
      for (const std::size_t at : places) bytes.at(at) = static_cast<char>(bytes.at(at) ^ 1);
      mine()->write("c/" + file, bytes);
    }
    barrier(world());
  }

  VerifyReport verify(Communicator& comm, FileSystem& files = posix_file_system()) const {
    VerifyOptions options;
    options.path = path() + "/c";
    options.threads = 1;
    return cairn::verify(comm, files, options);
  }
};

std::string described(const VerifyReport& report) {
  std::string text;
  for (const Fault& fault : report.faults.faults()) {
    text +=
        fault.name + " " + fault.file + " " + std::to_string(fault.byte_offset) + " " + fault.message + "\n";
  }
  for (const auto number :
       {report.faults.count(), report.checked_bytes, report.unchecked_items, report.chunks}) {
    text += std::to_string(number) + " ";
  }
  return text;
}

void expect_same_everywhere(const std::string& text) {
  for (const Bytes& theirs : world().gather(as_bytes(text), 0)) EXPECT_EQ(as_text(theirs), text);
}

TEST(Verify, AnyNumberOfRanksGivesTheReportOfOneOnAll) {
  SharedCheckpoint checkpoint;
  const auto whole = checkpoint.verify(world());
  EXPECT_TRUE(whole.faults.empty()) << described(whole);
  EXPECT_EQ(whole.ranks, world().size());
  expect_same_everywhere(described(whole));

  checkpoint.flip("large.distcp", {(1u << 20), (8u << 20) + 5, (30u << 20)});
  for (const char* file : {"small0", "small1", "small2"}) checkpoint.flip(file, {30, 400, 20'000, 40'000});
  const auto report = checkpoint.verify(world());
  EXPECT_GE(report.faults.count(), 10u);
  expect_same_everywhere(described(report));
  const auto solo = solo_communicator();
  EXPECT_EQ(described(report), described(checkpoint.verify(*solo)));
}

TEST(Verify, WhatIsVerifiedIsTheFirstRanksChoice) {
  const SharedCheckpoint checkpoint;
  VerifyOptions options;
  options.path = checkpoint.path() + (world().rank() == 0 ? "/c" : "/elsewhere");
  options.metadata_only = world().rank() == 0;
  const auto report = verify(world(), posix_file_system(), options);
  EXPECT_EQ(report.checked_bytes, 0u);
  expect_same_everywhere(described(report));
}

TEST(Verify, AFailureOfTheFileSystemOnAnyRankIsEverybodys) {
  SharedCheckpoint checkpoint;
  for (int bad = 0; bad < world().size(); ++bad) {
    FaultyFileSystem files(posix_file_system());
    if (world().rank() == bad) {
      InjectedFault fault{};
      fault.operation = Operation::read;
      fault.error_number = EIO;
      files.inject(fault);
    }
    const Error error = failure_of([&] { checkpoint.verify(world(), files); });
    EXPECT_EQ(error.kind(), ErrorKind::io);
    expect_same_everywhere(error.message());
  }
}

}  // namespace
}  // namespace cairn
