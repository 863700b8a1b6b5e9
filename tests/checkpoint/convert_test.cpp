// SPDX-License-Identifier: BSD-3-Clause
// What a failure of the machine leaves where a directory was to be written.
#include "cairn/convert.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <map>

#include "dcp_fixture.hpp"
#include "failure_of.hpp"
#include "storage/fault.hpp"
#include "storage/forwarding.hpp"

namespace cairn {
namespace {

/// A checkpoint as a directory and as a torch file, and where it goes.
struct Trial {
  TempDir dir;
  ConvertOptions options;
  std::unique_ptr<Communicator> comm = solo_communicator();

  Trial() {
    const Shape shape{300, 1000};
    DcpFixture fixture;
    fixture.add({"w", DType::float32, shape, split(shape, 0, 2)});
    fixture.add({"v", DType::int64, {40, 3}, split({40, 3}, 1, 1)});
    fixture.add_object("note", "hello");
    fixture.write(dir, "source");
    options.source = dir / "source";
    options.destination = dir / "file.pth";
    convert(*comm, posix_file_system(), options);
    options.destination = dir / "out";
    options.ranks = 3;
    options.threads = 2;
  }
  /// By name, with what is in them.
  std::map<std::string, std::string> left() const {
    std::map<std::string, std::string> content;
    FileSystem& files = posix_file_system();
    if (!files.status(options.destination)) return content;
    for (const std::string& name : files.list(options.destination)) content[name] = dir.read("out/" + name);
    return content;
  }
};

struct Failing {
  Operation operation;
  const char* path;
  int error_number;
  std::uint64_t call = 0;
};
const Failing kSteps[] = {
    {Operation::create, ".distcp", EACCES},   {Operation::create, "__2_", ENOSPC},
    {Operation::allocate, "__1_", ENOSPC},    {Operation::open_write, "__0_", EIO},
    {Operation::write, "__0_", ENOSPC},       {Operation::write, "__1_", EIO},
    {Operation::write, "__2_", ENOSPC},       {Operation::write, "distcp", EDQUOT, 2},
    {Operation::sync, "__1_", EIO},           {Operation::close, "__2_", EIO},
    {Operation::create, ".metadata", ENOSPC}, {Operation::write, ".metadata", ENOSPC},
    {Operation::sync, ".metadata", EIO},      {Operation::rename, ".metadata", EACCES},
    {Operation::free_bytes, "", EIO},
};

/// The name as far as the step tells it.
std::string_view named_by(const Failing& step) {
  const std::string_view path = step.path;
  return path.starts_with("__") ? path : path.substr(0, path.find('_'));
}

void fail_each(Trial& trial, const std::map<std::string, std::string>& before) {
  for (const char* source : {"source", "file.pth"}) {
    trial.options.source = trial.dir / source;
    for (const Failing& step : kSteps) {
      FaultyFileSystem files(posix_file_system());
      files.inject({.operation = step.operation,
                    .path_contains = step.path,
                    .first_call = step.call,
                    .error_number = step.error_number});
      const Error error = failure_of([&] { convert(*trial.comm, files, trial.options); });
      const std::string step_name = std::string(source) + ", operation " +
                                    std::to_string(static_cast<int>(step.operation)) + " of '" + step.path +
                                    "'";
      EXPECT_EQ(error.kind(), ErrorKind::io) << step_name << ": " << error.what();
      EXPECT_TRUE(contains(error, named_by(step))) << step_name << ": " << error.what();
      EXPECT_TRUE(trial.left() == before) << step_name;
    }
  }
}

TEST(ConvertFailures, LeaveNothingInADirectoryThatWasThere) {
  Trial trial;
  posix_file_system().make_directories(trial.options.destination);
  fail_each(trial, {});
  EXPECT_TRUE(posix_file_system().status(trial.options.destination));
}

TEST(ConvertFailures, LeaveNoNewDirectory) {
  Trial trial;
  posix_file_system().make_directories(trial.dir / "there");
  for (const ConvertTo to : {ConvertTo::dcp, ConvertTo::safetensors, ConvertTo::torch_file}) {
    for (const Operation operation : {Operation::create, Operation::write, Operation::sync, Operation::rename,
                                      Operation::make_directories, Operation::free_bytes}) {
      ConvertOptions options = trial.options;
      options.to = to;
      if (to != ConvertTo::dcp) options.ranks = 1;
      options.objects = ObjectPolicy::drop;
      options.destination = trial.dir / "there/new/inner/";
      FaultyFileSystem files(posix_file_system());
      files.inject({.operation = operation, .path_contains = "there", .error_number = ENOSPC});
      const Error error = failure_of([&] { convert(*trial.comm, files, options); });
      EXPECT_EQ(error.kind(), ErrorKind::io) << error.what();
      EXPECT_EQ(posix_file_system().list(trial.dir / "there"), std::vector<std::string>{})
          << static_cast<int>(to) << ", operation " << static_cast<int>(operation);
    }
  }
}

// Of all that is to be written, not of what comes before the first file that does not fit.
TEST(ConvertFailures, AFullDiskIsToldTheSumOfAllFiles) {
  struct FullDisk : ForwardingFileSystem {
    FullDisk() : ForwardingFileSystem(posix_file_system()) {}
    std::uint64_t free_bytes(const std::string&) override { return 1000; }
  } files;
  Trial trial;
  for (const ConvertTo to : {ConvertTo::dcp, ConvertTo::safetensors}) {
    ConvertOptions options = trial.options;
    options.to = to;
    if (to == ConvertTo::safetensors) {
      options.ranks = 1;
      options.objects = ObjectPolicy::drop;
      options.max_shard_bytes = 2000;
    }
    const Error error = failure_of([&] { convert(*trial.comm, files, options); });
    EXPECT_FALSE(posix_file_system().status(options.destination));
    convert(*trial.comm, posix_file_system(), options);
    std::uint64_t bytes = 0;
    for (const auto& [name, content] : trial.left()) bytes += content.size();
    EXPECT_TRUE(contains(error, "needs " + std::to_string(bytes) + " bytes, 1000 are free")) << error.what();
    posix_file_system().rename(options.destination,
                               options.destination + "_before" + std::to_string(static_cast<int>(to)));
  }
}

TEST(ConvertFailures, LeaveTheCheckpointThatWasThere) {
  Trial trial;
  convert(*trial.comm, posix_file_system(), trial.options);
  const auto before = trial.left();
  EXPECT_EQ(before.size(), 4u);
  trial.options.overwrite = true;
  trial.options.ranks = 4;
  fail_each(trial, before);
}

TEST(ConvertFailures, TheSameCommandSucceedsAfterwards) {
  Trial trial;
  FaultyFileSystem files(posix_file_system());
  files.inject({.operation = Operation::write, .path_contains = "__1_", .error_number = ENOSPC});
  failure_of([&] { convert(*trial.comm, files, trial.options); });
  files.heal();
  convert(*trial.comm, files, trial.options);
  VerifyOptions verify_options;
  verify_options.path = trial.options.destination;
  EXPECT_TRUE(verify(*trial.comm, files, verify_options).faults.empty());
}

}  // namespace
}  // namespace cairn
