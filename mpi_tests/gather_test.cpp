// SPDX-License-Identifier: BSD-3-Clause
// Shards on disks of nodes: every rank sees its own, rank 0 writes.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <set>

#include "cairn/checkpoint.hpp"
#include "dcp_fixture.hpp"
#include "failure_of.hpp"
#include "private_files.hpp"
#include "shared_directory.hpp"
#include "storage/fault.hpp"

namespace cairn {
namespace {

constexpr int kShards = 8;

std::string shard(int i) { return "__" + std::to_string(i) + "_0.distcp"; }

std::vector<FixtureChunk> mesh(const Shape& shape) {
  std::vector<FixtureChunk> chunks;
  for (const auto& rows : split(shape, 0, 2)) {
    for (FixtureChunk chunk : split(shape, 1, 4)) {
      chunk.box.offsets[0] = rows.box.offsets[0];
      chunk.box.sizes[0] = rows.box.sizes[0];
      chunk.file = shard(static_cast<int>(chunks.size()));
      chunks.push_back(chunk);
    }
  }
  return chunks;
}

std::vector<FixtureChunk> transposed(const Shape& shape) {
  auto chunks = split(shape, 0, 3);
  for (auto& chunk : chunks) chunk.order = {1, 0};
  return chunks;
}

void add_all_layouts(DcpFixture& fixture) {
  const Shape shape{1200, 900};
  fixture.add({"rows", DType::int32, shape, split(shape, 0, 8)});
  fixture.add({"columns", DType::int32, shape, split(shape, 1, 5)});
  fixture.add({"mesh", DType::float32, shape, mesh(shape)});
  fixture.add({"transposed", DType::int16, shape, transposed(shape)});
  fixture.add({"scalar", DType::float64, {}, {{{{}, {}}, shard(3)}}});
  fixture.add({"empty", DType::float32, {0, 4}, {{{{0, 0}, {0, 4}}, shard(2)}}});
  FixtureChunk gapped{{{0, 0}, {300, 200}}, shard(5)};
  gapped.gap = 3;
  gapped.storage_offset = 7;
  fixture.add({"gapped", DType::int32, {300, 200}, {gapped}});
  for (int i = 0; i < 200; ++i) {
    fixture.add({"s" + std::to_string(i), DType::uint8, {i + 1}, {{{{0}, {i + 1}}, shard(i % kShards)}}});
  }
  fixture.add_object("note", "hello");
}

/// Made by rank 0. Rank r has the shards i with i % size == r; `.metadata` is on the last rank alone.
class NodeLocalCheckpoint : public SharedDirectory {
 public:
  NodeLocalCheckpoint()
      : SharedDirectory([](const TempDir& dir) {
          DcpFixture fixture;
          add_all_layouts(fixture);
          fixture.write(dir, "source");
        }) {}

  ConsolidateOptions options() const {
    ConsolidateOptions options;
    options.source = path() + "/source";
    options.destination = path() + "/out.pth";
    options.overwrite = true;
    options.sync = false;
    options.visibility_timeout_s = 0;
    return options;
  }

  static int owner(int shard_index) { return shard_index % world().size(); }

  /// What a rank has none of: the shards and the metadata of others, and the output.
  PrivateFileSystem::Hidden hidden(int rank) const {
    return [rank, this](const std::string& path) {
      if (path.find(".metadata") != path.npos) return rank != world().size() - 1;
      for (int i = 0; i < kShards; ++i) {
        if (path.ends_with(shard(i))) return rank != owner(i);
      }
      return rank != 0 && path.find("/out.pth") != path.npos;
    };
  }
  PrivateFileSystem files(FileSystem& inner) const { return {inner, hidden(world().rank())}; }

  /// On rank 0.
  std::string output() const { return mine()->read("out.pth"); }
  std::string solo_output() const {
    auto alone = options();
    alone.destination = path() + "/solo.pth";
    alone.destination += "/out.pth";
    const auto solo = solo_communicator();
    consolidate(*solo, posix_file_system(), alone);
    return mine()->read("solo.pth/out.pth");
  }
  void put_old_output() const {
    if (mine() != nullptr) mine()->write("out.pth", "the old one");
    barrier(world());
  }
  std::vector<std::string> left() const { return posix_file_system().list(path()); }

  /// Flips a bit of a file, on rank 0; again to undo it.
  void damage(const std::string& name, std::size_t at) const {
    if (mine() != nullptr) {
      std::string bytes = mine()->read("source/" + name);
      bytes.at(at) ^= 1;
      mine()->write("source/" + name, bytes);
    }
    barrier(world());
  }
};

bool mentions(const std::vector<std::string>& notes, std::string_view text) {
  return std::ranges::any_of(notes, [&](const auto& note) { return note.find(text) != note.npos; });
}

void expect_same_everywhere(const Error& error) {
  for (const Bytes& theirs : world().gather(as_bytes(error.what()), 0))
    EXPECT_EQ(as_text(theirs), error.what());
}

TEST(Gather, ShardsOfAllNodesBecomeTheFileOfOneRank) {
  const NodeLocalCheckpoint checkpoint;
  auto files = checkpoint.files(posix_file_system());
  const auto report = consolidate(world(), files, checkpoint.options());
  EXPECT_EQ(mentions(report.warnings, "--write gather"), world().size() > 1);
  EXPECT_EQ(report.written_bytes, report.outputs.at(0).bytes);
  EXPECT_GT(report.verified_bytes, 0u);
  if (world().rank() == 0) {
    EXPECT_TRUE(checkpoint.output() == checkpoint.solo_output());
  }
}

TEST(Gather, AskedForOnASharedDiskItReadsEachShardOnOneRank) {
  const NodeLocalCheckpoint checkpoint;
  PrivateFileSystem files(posix_file_system(), [](const std::string&) { return false; });
  auto options = checkpoint.options();
  options.write = WriteMode::gather;
  const auto report = consolidate(world(), files, options);
  EXPECT_FALSE(mentions(report.warnings, "gather"));
  const auto opened = world().gather(as_bytes(std::to_string(files.opened())), 0);
  if (world().rank() != 0) return;
  int shards_opened = 0;
  for (const Bytes& one : opened) shards_opened += std::stoi(std::string(as_text(one)));
  EXPECT_LE(shards_opened, kShards + 4) << "and .metadata, looked at and read";
  EXPECT_TRUE(checkpoint.output() == checkpoint.solo_output());
}

TEST(Gather, LittleMemoryAndManyThreadsChangeNothing) {
  const NodeLocalCheckpoint checkpoint;
  auto files = checkpoint.files(posix_file_system());
  auto options = checkpoint.options();
  for (const auto& [memory, threads] : {std::pair{2ull << 20, 1}, std::pair{64ull << 20, 30}}) {
    options.max_memory = memory;
    options.threads = threads;
    consolidate(world(), files, options);
    if (world().rank() == 0) {
      EXPECT_TRUE(checkpoint.output() == checkpoint.solo_output());
    }
  }
}

TEST(Gather, SeveralOutputsComeFromOneReading) {
  const NodeLocalCheckpoint checkpoint;
  auto files = checkpoint.files(posix_file_system());
  auto options = checkpoint.options();
  options.more_outputs = {checkpoint.path() + "/half.pth:select=mesh,cast=float16"};
  const auto report = consolidate(world(), files, options);
  EXPECT_EQ(report.outputs.size(), 2u);
  if (world().rank() != 0) return;
  EXPECT_TRUE(checkpoint.output() == checkpoint.solo_output());
}

TEST(Gather, SharedIsRefusedWhereARankLacksAShard) {
  if (world().size() == 1) return;
  const NodeLocalCheckpoint checkpoint;
  auto files = checkpoint.files(posix_file_system());
  auto options = checkpoint.options();
  options.write = WriteMode::shared;
  const Error error = failure_of([&] { consolidate(world(), files, options); });
  expect_same_everywhere(error);
  EXPECT_EQ(error.kind(), ErrorKind::not_found);
  EXPECT_TRUE(contains(error, "does not see this shard")) << error.what();
  EXPECT_TRUE(contains(error, "--write gather")) << error.what();
}

TEST(Gather, AShardThatNobodySeesIsNamedWithWhatIsInIt) {
  if (world().size() == 1) return;
  const NodeLocalCheckpoint checkpoint;
  const auto usual = checkpoint.hidden(world().rank());
  PrivateFileSystem files(posix_file_system(),
                          [&](const std::string& path) { return path.ends_with(shard(1)) || usual(path); });
  const Error error = failure_of([&] { consolidate(world(), files, checkpoint.options()); });
  expect_same_everywhere(error);
  EXPECT_EQ(error.kind(), ErrorKind::corrupt);
  for (const char* part : {"__1_0.distcp", "'rows': chunk", "rank 1 ("}) {
    EXPECT_TRUE(contains(error, part)) << error.what();
  }
}

// Rank 0 does not wait in silence.
TEST(Gather, WhatIsWaitedForIsSaidAfterSomeSeconds) {
  if (world().size() == 1) return;
  const NodeLocalCheckpoint checkpoint;
  const auto usual = checkpoint.hidden(world().rank());
  PrivateFileSystem files(posix_file_system(),
                          [&](const std::string& path) { return path.ends_with(shard(1)) || usual(path); });
  auto options = checkpoint.options();
  options.visibility_timeout_s = 6;
  std::vector<std::string> notes;
  options.note = [&](const std::string& note) { notes.push_back(note); };
  failure_of([&] { consolidate(world(), files, options); });
  EXPECT_EQ(notes.size(), world().rank() == 0 ? 1u : 0u);
  if (world().rank() == 0) {
    EXPECT_TRUE(mentions(notes, "__1_0.distcp: no rank sees it"));
  }
}

TEST(Gather, SizesThatDifferBetweenRanksAreNamed) {
  if (world().size() == 1) return;
  const NodeLocalCheckpoint checkpoint;
  // the last rank's copy of a shard is shorter
  struct ShortFileSystem final : ForwardingFileSystem {
    using ForwardingFileSystem::ForwardingFileSystem;
    std::optional<FileStatus> status(const std::string& path, bool follow) override {
      auto found = inner_.status(path, follow);
      if (found && path.ends_with(shard(2)) && world().rank() == world().size() - 1) found->size -= 5;
      return found;
    }
  } files(posix_file_system());
  const Error error = failure_of([&] { consolidate(world(), files, checkpoint.options()); });
  expect_same_everywhere(error);
  EXPECT_EQ(error.kind(), ErrorKind::mismatch);
  const auto last = "rank " + std::to_string(world().size() - 1) + " (";
  EXPECT_TRUE(contains(error, last) && contains(error, "rank 0 (")) << error.what();
}

// The shards of the last rank appear a second after its .metadata.
TEST(Gather, ShardsThatAppearLateAreWaitedFor) {
  if (world().size() == 1) return;
  const NodeLocalCheckpoint checkpoint;
  const auto appears = std::chrono::steady_clock::now() + std::chrono::milliseconds(1000);
  const auto usual = checkpoint.hidden(world().rank());
  PrivateFileSystem files(posix_file_system(), [&](const std::string& path) {
    const bool late = path.ends_with(shard(world().size() - 1));
    return usual(path) || (late && std::chrono::steady_clock::now() < appears);
  });
  auto options = checkpoint.options();
  options.visibility_timeout_s = 30;
  options.stall_timeout_s = 3600;
  consolidate(world(), files, options);
  if (world().rank() == 0) {
    EXPECT_TRUE(checkpoint.output() == checkpoint.solo_output());
  }
}

// Step x rank: whatever fails on whichever rank, all ranks throw the same and the old output stays.
TEST(Gather, AFailureOnAnyRankAtAnyStepIsEverybodys) {
  const NodeLocalCheckpoint checkpoint;
  auto options = checkpoint.options();
  for (const Operation operation : {Operation::open_read, Operation::read, Operation::status}) {
    for (int bad = 0; bad < world().size(); ++bad) {
      for (const std::uint64_t call : {0, 3, 9}) {
        checkpoint.put_old_output();
        FaultyFileSystem faulty(posix_file_system());
        if (world().rank() == bad) {
          InjectedFault fault{};
          fault.operation = operation;
          fault.path_contains = ".distcp";
          fault.first_call = operation == Operation::read ? call : 0;
          fault.error_number = EIO;
          faulty.inject(fault);
        }
        auto files = checkpoint.files(faulty);
        const Error error = failure_of([&] { consolidate(world(), files, options); });
        expect_same_everywhere(error);
        ASSERT_FALSE(error.failures().empty());
        EXPECT_EQ(error.failures().front().rank, bad) << error.what();
        if (world().rank() == 0) {
          EXPECT_EQ(checkpoint.output(), "the old one");
          EXPECT_EQ(checkpoint.left(), (std::vector<std::string>{"out.pth", "source"})) << error.what();
        }
        if (operation != Operation::read) break;
      }
    }
  }
}

TEST(Gather, AFailedWriteOfTheCoordinatorIsEverybodys) {
  const NodeLocalCheckpoint checkpoint;
  for (const Operation operation : {Operation::open_write, Operation::write, Operation::rename}) {
    checkpoint.put_old_output();
    FaultyFileSystem faulty(posix_file_system());
    InjectedFault fault{};
    fault.operation = operation;
    fault.error_number = ENOSPC;
    faulty.inject(fault);
    auto files = checkpoint.files(faulty);
    const Error error = failure_of([&] { consolidate(world(), files, checkpoint.options()); });
    expect_same_everywhere(error);
    if (world().rank() == 0) {
      EXPECT_EQ(checkpoint.output(), "the old one");
    }
  }
}

TEST(Gather, DamageIsLaidAtTheDoorOfTheRankThatHasTheFile) {
  const NodeLocalCheckpoint checkpoint;
  auto files = checkpoint.files(posix_file_system());
  const std::size_t in_the_first_rows = 5000;
  for (int bad = 0; bad < std::min(world().size(), kShards); ++bad) {
    checkpoint.damage(shard(bad), in_the_first_rows);
    const Error error = failure_of([&] { consolidate(world(), files, checkpoint.options()); });
    expect_same_everywhere(error);
    EXPECT_EQ(error.kind(), ErrorKind::corrupt) << error.what();
    ASSERT_FALSE(error.failures().empty());
    EXPECT_EQ(error.failures().front().rank, bad) << error.what();
    EXPECT_TRUE(contains(error, shard(bad)) && contains(error, "'rows'")) << error.what();
    checkpoint.damage(shard(bad), in_the_first_rows);
  }
}

TEST(Gather, NothingAnywhereIsRankZerosError) {
  const NodeLocalCheckpoint checkpoint;
  auto options = checkpoint.options();
  options.source = checkpoint.path() + "/nowhere";
  const Error error = failure_of([&] { consolidate(world(), posix_file_system(), options); });
  expect_same_everywhere(error);
  EXPECT_EQ(error.kind(), ErrorKind::not_found);
}

}  // namespace
}  // namespace cairn
