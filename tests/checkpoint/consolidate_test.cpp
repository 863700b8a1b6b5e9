// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <random>

#include "cairn/checkpoint.hpp"
#include "dcp_fixture.hpp"
#include "failure_of.hpp"
#include "formats/torch_file/archive.hpp"
#include "storage/fault.hpp"

namespace cairn {
namespace {

/// The payload of data/<index> of a torch file, its CRC checked.
Bytes storage_of(const std::string& file, std::size_t index) {
  const auto bytes = as_bytes(file);
  const zip::ReadAt read = [&](std::uint64_t at, std::span<std::byte> into) {
    std::memcpy(into.data(), bytes.data() + at, into.size());
  };
  const torch_file::Archive archive(read, file.size(), "output");
  const auto record = archive.storage(std::to_string(index), 0);
  Bytes payload(bytes.begin() + static_cast<std::ptrdiff_t>(record.byte_offset),
                bytes.begin() + static_cast<std::ptrdiff_t>(record.byte_offset + record.size));
  EXPECT_EQ(crc32(payload), record.crc);
  return payload;
}

struct Trial {
  TempDir dir;
  ConsolidateOptions options;
  std::unique_ptr<Communicator> comm = solo_communicator();

  Trial() {
    options.source = dir / "source";
    options.destination = dir / "out.pth";
    options.sync = false;
    options.threads = 2;
  }
  ConsolidateReport go(FileSystem& files = posix_file_system()) { return consolidate(*comm, files, options); }
  std::vector<std::string> left() { return posix_file_system().list(dir.path()); }
};

void expect_tensors(Trial& run, const std::vector<FixtureTensor>& tensors) {
  DcpFixture fixture;
  for (const auto& tensor : tensors) fixture.add(tensor);
  fixture.write(run.dir, "source");
  run.go();
  const std::string file = run.dir.read("out.pth");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_TRUE(storage_of(file, i) == expected_payload(tensors[i])) << tensors[i].name;
  }
}

TEST(Consolidate, EveryDtypeIsCopiedBitByBit) {
  Trial run;
  std::vector<FixtureTensor> tensors;
  for (int d = 0; d <= static_cast<int>(DType::bits16); ++d) {
    const Shape shape{5, 3};
    tensors.push_back(
        {std::string(info(static_cast<DType>(d)).name), static_cast<DType>(d), shape, split(shape, 0, 2)});
  }
  expect_tensors(run, tensors);
}

TEST(Consolidate, AnyCutIsPutTogether) {
  Trial run;
  std::mt19937 random(5);
  std::vector<FixtureTensor> tensors;
  for (int round = 0; round < 60; ++round) {
    Shape shape;
    for (std::size_t d = 0; d < 1 + random() % 4; ++d)
      shape.push_back(1 + static_cast<std::int64_t>(random() % 9));
    std::vector<FixtureChunk> chunks{{{Shape(shape.size(), 0), shape}}};
    for (int cut = 0; cut < 12; ++cut) {
      const std::size_t dim = random() % shape.size();
      FixtureChunk& chunk = chunks[random() % chunks.size()];
      if (chunk.box.sizes[dim] < 2) continue;
      FixtureChunk rest = chunk;
      const auto keep = 1 + static_cast<std::int64_t>(random()) % (chunk.box.sizes[dim] - 1);
      rest.box.offsets[dim] += keep;
      rest.box.sizes[dim] -= keep;
      rest.file = "__" + std::to_string(random() % 3) + "_0.distcp";
      chunk.box.sizes[dim] = keep;
      chunks.push_back(rest);
    }
    for (auto& chunk : chunks) {
      chunk.order.resize(shape.size());
      std::iota(chunk.order.begin(), chunk.order.end(), std::size_t{0});
      if (round % 2 == 1) std::ranges::shuffle(chunk.order, random);
      chunk.gap = 1 + static_cast<std::int64_t>(random() % 3);
      chunk.storage_offset = static_cast<std::int64_t>(random() % 5);
    }
    tensors.push_back(
        {"t" + std::to_string(round), round % 3 == 0 ? DType::int16 : DType::int64, shape, chunks});
  }
  expect_tensors(run, tensors);
}

TEST(Consolidate, TensorsOfManyWindowsInEveryOrientation) {
  Trial run;
  const Shape tall{300000, 3}, wide{3, 300000}, cube{90, 100, 110};
  std::vector<FixtureTensor> tensors{{"tall", DType::int32, tall, split(tall, 0, 5)},
                                     {"tall columns", DType::int64, tall, split(tall, 1, 3)},
                                     {"wide", DType::int32, wide, split(wide, 0, 3)},
                                     {"wide columns", DType::int32, wide, split(wide, 1, 7)},
                                     {"middle", DType::int32, cube, split(cube, 1, 4)},
                                     {"inner", DType::int16, cube, split(cube, 2, 4)}};
  tensors.push_back(
      {"transposed", DType::int64, {700, 600}, {{{{0, 0}, {700, 600}}, "__0_0.distcp", {1, 0}}}});
  tensors.push_back(
      {"sparse view", DType::int32, {2000, 50}, {{{{0, 0}, {2000, 50}}, "__0_0.distcp", {0, 1}, 9}}});
  expect_tensors(run, tensors);
}

TEST(Consolidate, EmptyAndScalarTensors) {
  Trial run;
  FixtureTensor empty{"empty", DType::float32, {0, 3}, {{{{0, 0}, {0, 3}}}}};
  FixtureTensor unstored{"unstored", DType::float32, {0}, {}};
  FixtureTensor scalar{"scalar", DType::float64, {}, {{{{}, {}}}}};
  FixtureTensor trailing{"trailing", DType::uint8, {2}, {{{{0}, {2}}}, {{{2}, {0}}}}};
  expect_tensors(run, {empty, unstored, scalar, trailing});
}

TEST(Consolidate, ThreadsDoNotChangeTheBytes) {
  Trial run;
  DcpFixture fixture;
  const Shape shape{1500, 700};
  for (int i = 0; i < 4; ++i)
    fixture.add({"w" + std::to_string(i), DType::int32, shape, split(shape, i % 2, 3)});
  for (int i = 0; i < 500; ++i) fixture.add({"s" + std::to_string(i), DType::uint8, {i}, {{{{0}, {i}}}}});
  fixture.add_object("note", "hello");
  fixture.write(run.dir, "source");
  run.options.threads = 1;
  run.go();
  const std::string one = run.dir.read("out.pth");
  run.options.overwrite = true;
  for (int threads : {2, 5, 8}) {
    run.options.threads = threads;
    const auto report = run.go();
    EXPECT_EQ(report.threads, threads);
    EXPECT_TRUE(run.dir.read("out.pth") == one);
  }
}

TEST(Consolidate, TheReportCountsWhatWasDone) {
  Trial run;
  DcpFixture fixture;
  fixture.add({"a", DType::float32, {10}, split({10}, 0, 2)});
  fixture.add_object("o", "x");
  fixture.write(run.dir, "source");
  const auto report = run.go();
  ASSERT_EQ(report.outputs.size(), 1u);
  EXPECT_EQ(report.outputs[0].tensors, 1u);
  EXPECT_EQ(report.outputs[0].objects, 1u);
  EXPECT_EQ(report.outputs[0].bytes, run.dir.read("out.pth").size());
  EXPECT_EQ(report.written_bytes, report.outputs[0].bytes);
  EXPECT_GT(report.read_bytes, 40u);
  EXPECT_TRUE(report.warnings.empty());
}

// Tensors that the kernel may copy (by rows, whole, with empty shards) among those that it may not (by
// columns, by transposed rows, small ones).
void write_for_kernel(const TempDir& dir) {
  DcpFixture fixture;
  fixture.add({"small", DType::int32, {10, 3}, split({10, 3}, 0, 2)});
  fixture.add({"rows", DType::int32, {3000, 301}, split({3000, 301}, 0, 3)});
  fixture.add({"whole", DType::float64, {500, 700}, split({500, 700}, 0, 1)});
  fixture.add({"columns", DType::int32, {800, 900}, split({800, 900}, 1, 3)});
  fixture.add({"few", DType::int16, {2, 600000}, split({2, 600000}, 0, 3)});
  auto turned = split({900, 700}, 0, 2);
  for (FixtureChunk& chunk : turned) chunk.order = {1, 0};
  fixture.add({"turned", DType::int32, {900, 700}, turned});
  fixture.add({"after", DType::uint8, {7}, split({7}, 0, 1)});
  fixture.write(dir, "source");
}

TEST(Consolidate, TheKernelsCopyIsTheSameFile) {
  Trial run;
  write_for_kernel(run.dir);
  run.go();
  const std::string by_user = run.dir.read("out.pth");
  run.options.copy = CopyMode::kernel;
  run.options.overwrite = true;
  for (const int refused : {0, EXDEV}) {
    FaultyFileSystem files(posix_file_system());
    InjectedFault fault{};
    fault.operation = Operation::copy;
    fault.error_number = refused;
    if (refused != 0) files.inject(fault);
    const auto report = run.go(files);
    EXPECT_EQ(report.verified_bytes, 0u);
    EXPECT_TRUE(run.dir.read("out.pth") == by_user);
    EXPECT_EQ(files.count(Operation::copy).bytes > 0, refused == 0);
  }
}

TEST(Consolidate, WhatTheKernelCopiesHasTheCrcThatTheSourceStates) {
  Trial run;
  write_for_kernel(run.dir);
  std::string shard = run.dir.read("source/__0_0.distcp");
  shard[200'000] ^= 1;  // in the payload of 'rows'
  run.dir.write("source/__0_0.distcp", shard);
  run.options.copy = CopyMode::kernel;
  run.go();  // unverified: the damage is copied

  VerifyOptions options;
  options.path = run.options.destination;
  EXPECT_FALSE(verify(*run.comm, posix_file_system(), options).faults.empty());
}

// Small records by the thousand, some that windows cut, empty ones; casts to narrower and wider types.
void write_many_kinds(const TempDir& dir) {
  DcpFixture fixture;
  for (int i = 0; i < 3000; ++i)
    fixture.add(
        {"small." + std::to_string(i), DType::float32, {1 + i % 37}, split({1 + i % 37}, 0, 1 + i % 2)});
  fixture.add({"big.rows", DType::float32, {1500, 1001}, split({1500, 1001}, 0, 3)});
  fixture.add({"big.columns", DType::bfloat16, {900, 1200}, split({900, 1200}, 1, 4)});
  fixture.add({"empty", DType::float32, {0, 5}, split({0, 5}, 0, 1)});
  fixture.add({"ints", DType::int64, {300000}, split({300000}, 0, 2)});
  fixture.add({"last", DType::float64, {}, {{{{}, {}}}}});
  fixture.add_object("word", "text");
  fixture.write(dir, "source");
}

TEST(Consolidate, SeveralOutputsAreTheFilesThatOneRunEachMakes) {
  Trial run;
  write_many_kinds(run.dir);
  run.go();
  const std::string all = run.dir.read("out.pth");
  run.options.more_outputs = {
      run.dir / "half.pth:cast=float16,cast=big.*=keep",
      run.dir / "some.pth:select=big.*,select=*t*,rename=big=large,cast=large.columns=float32"};
  run.options.overwrite = true;
  const auto report = run.go();
  ASSERT_EQ(report.outputs.size(), 3u);
  EXPECT_TRUE(run.dir.read("out.pth") == all);
  const std::string half = run.dir.read("half.pth"), some = run.dir.read("some.pth");

  run.options.more_outputs.clear();
  run.options.destination = run.dir / "half.pth";
  run.options.names.cast = {"float16", "big.*=keep"};
  run.go();
  EXPECT_TRUE(run.dir.read("half.pth") == half);
  run.options.destination = run.dir / "some.pth";
  run.options.names = {};
  run.options.names.select = {"big.*", "*t*"};
  run.options.names.rename = {"big=large"};
  run.options.names.cast = {"large.columns=float32"};
  run.options.threads = 1;
  run.go();
  EXPECT_TRUE(run.dir.read("some.pth") == some);
  for (const char* file : {"out.pth", "half.pth", "some.pth"}) {
    VerifyOptions options;
    options.path = run.dir / file;
    options.strict = true;
    EXPECT_TRUE(verify(*run.comm, posix_file_system(), options).faults.empty()) << file;
  }
}

TEST(Consolidate, SeveralOutputsReadEachByteOnce) {
  Trial run;
  write_many_kinds(run.dir);
  const auto once = run.go().read_bytes;
  run.options.overwrite = true;
  run.options.more_outputs = {run.dir / "a.pth:cast=bfloat16,exclude=word", run.dir / "b.pth:select=big.*"};
  EXPECT_LT(run.go().read_bytes, once + once / 100);  // items that windows cut are read by both
}

TEST(Consolidate, TwoOutputsOfOneNameAreRefused) {
  Trial run;
  write_many_kinds(run.dir);
  run.options.more_outputs = {run.options.destination + ":cast=bfloat16"};
  EXPECT_EQ(failure_of([&] { run.go(); }).kind(), ErrorKind::invalid_argument);
  EXPECT_EQ(run.left(), (std::vector<std::string>{"source"}));
}

TEST(Consolidate, ACapBelowOneThreadsBuffersIsRefused) {
  Trial run;
  DcpFixture().write(run.dir, "source");
  run.options.max_memory = 1000;
  EXPECT_EQ(failure_of([&] { run.go(); }).kind(), ErrorKind::invalid_argument);
}

TEST(Consolidate, AnItemThatContradictsTheMetadataIsNamed) {
  Trial run;
  DcpFixture honest, other;
  honest.add({"w", DType::float32, {8}, split({8}, 0, 2)});
  honest.write(run.dir, "source");
  other.add({"w", DType::int32, {8}, split({8}, 0, 2)});
  other.write(run.dir, "other");
  run.dir.write("source/__1_0.distcp", run.dir.read("other/__1_0.distcp"));
  const Error error = failure_of([&] { run.go(); });
  EXPECT_EQ(error.kind(), ErrorKind::corrupt);
  for (const char* word : {"'w'", "__1_0.distcp", "int32", "float32"})
    EXPECT_TRUE(contains(error, word)) << word;
  EXPECT_EQ(run.left(), (std::vector<std::string>{"other", "source"}));
}

// Many small tensors, their items interleaved over three files as a round robin saves them.
void write_small_tensors(const TempDir& dir, int count) {
  DcpFixture fixture;
  for (int i = 0; i < count; ++i) {
    const std::string file = "__" + std::to_string(i % 3) + "_0.distcp";
    fixture.add({"t" + std::to_string(i), DType::int32, {100}, {{{{0}, {100}}, file}}});
  }
  fixture.write(dir, "source");
}

TEST(Consolidate, SmallTensorsCostFewReads) {
  Trial run;
  write_small_tensors(run.dir, 600);
  FaultyFileSystem files(posix_file_system());
  run.options.threads = 1;
  const auto report = run.go(files);
  EXPECT_LE(files.count(Operation::read).calls, 60u);
  EXPECT_EQ(report.verified_bytes, 600u * 400);
  const std::string file = run.dir.read("out.pth");
  for (const std::size_t i : {0u, 299u, 599u})
    EXPECT_TRUE(storage_of(file, i) == expected_payload({"", DType::int32, {100}, {}}));
}

TEST(Consolidate, SmallChunksAndLargeOnesMeetInOneTensor) {
  Trial run;
  std::vector<FixtureChunk> chunks;
  for (const std::int64_t from : {0, 7, 60000, 60013}) {
    const std::int64_t to = from == 0 ? 7 : from == 7 ? 60000 : from == 60000 ? 60013 : 60100;
    chunks.push_back({{{from}, {to - from}}});
  }
  const Shape square{300, 300};
  auto columns =
      split(square, 1, 300);  // too many to be looked at one by one; of the first the band is large
  for (auto& chunk : columns) chunk.file = "__0_0.distcp";
  expect_tensors(run, {{"mixed", DType::int32, {60100}, chunks}, {"columns", DType::int16, square, columns}});
}

TEST(Consolidate, ADamagedItemAmongMergedOnesIsNamedExactly) {
  Trial run;
  write_small_tensors(run.dir, 600);
  const std::string shard = run.dir.read("source/__1_0.distcp");
  const std::uint64_t item_bytes = shard.size() / 200, begin = 66 * item_bytes;  // of t199
  ASSERT_EQ(shard.size() % 200, 0u);
  const std::string value(
      reinterpret_cast<const char*>(expected_payload({"", DType::int32, {100}, {}}).data()), 400);
  const std::uint64_t payload = shard.find(value, begin), pickle = shard.find("_rebuild_tensor_v2", begin);
  const std::string where = "__1_0.distcp at byte ";
  struct Damage {
    std::uint64_t at;
    std::string found;
  };
  for (const auto& [at, found] :
       {Damage{payload + 200, where + std::to_string(payload) + ": its 400 bytes"},
        Damage{pickle, where + std::to_string(begin) + ": record 'archive/data.pkl' has CRC-32"},
        Damage{begin, where + std::to_string(begin) + ": no torch.save archive"},
        Damage{begin + item_bytes - 22, where + std::to_string(begin) + ": no zip end record"}}) {
    FaultyFileSystem files(posix_file_system());
    InjectedFault fault{.operation = Operation::read, .path_contains = "__1_0"};
    fault.flip_bit_of_byte = at;
    files.inject(fault);
    const Error error = failure_of([&] { run.go(files); });
    EXPECT_EQ(error.kind(), ErrorKind::corrupt);
    EXPECT_TRUE(contains(error, "'t199'")) << error.what();
    EXPECT_TRUE(contains(error, found)) << error.what();
    EXPECT_EQ(run.left(), (std::vector<std::string>{"source"}));
  }
}

// Every operation on the output side, failing once: nothing is published, nothing is left, the old output
// stays.
TEST(Consolidate, AnyFailureLeavesTheOldOutput) {
  Trial run;
  DcpFixture fixture;
  fixture.add({"w", DType::int32, {1000, 1000}, split({1000, 1000}, 0, 2)});
  fixture.write(run.dir, "source");
  run.dir.write("out.pth", "the old one");
  run.options.overwrite = true;
  run.options.sync = true;
  const std::vector<Operation> operations{Operation::create, Operation::allocate, Operation::open_write,
                                          Operation::write,  Operation::sync,     Operation::close,
                                          Operation::rename, Operation::read,     Operation::open_read};
  for (const Operation operation : operations) {
    for (std::uint64_t call = 0; call < 2; ++call) {
      FaultyFileSystem files(posix_file_system());
      InjectedFault fault{};
      fault.operation = operation;
      fault.first_call = call;
      fault.call_count = 1;
      fault.error_number = EIO;
      files.inject(fault);
      try {
        run.go(files);
        const bool only_unpinned = operation == Operation::open_read && call == 1;  // it is read all the same
        EXPECT_TRUE(only_unpinned || files.count(operation).calls <= call)
            << "operation " << static_cast<int>(operation);
        run.dir.write("out.pth", "the old one");
      } catch (const Error& error) {
        EXPECT_EQ(run.dir.read("out.pth"), "the old one") << error.what();
      }
      EXPECT_EQ(run.left(), (std::vector<std::string>{"out.pth", "source"}));
    }
  }
}

}  // namespace
}  // namespace cairn
