// SPDX-License-Identifier: BSD-3-Clause
#include "cairn/load.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "cairn/save.hpp"
#include "failure_of.hpp"
#include "load_fixture.hpp"
#include "storage/fault.hpp"
#include "tensor/cast.hpp"

namespace cairn {
namespace {

Box whole(const Shape& shape) { return {Shape(shape.size(), 0), shape}; }

std::vector<FixtureChunk> in_order(std::vector<FixtureChunk> chunks, const std::vector<std::size_t>& order) {
  for (auto& chunk : chunks) chunk.order = order;
  return chunks;
}

/// One of each way in which a tensor can be stored; `rows` of the large ones.
std::vector<FixtureTensor> stored_in_all_ways(std::int64_t rows) {
  const Shape large{rows, 300}, deep{rows / 4, 5, 240};
  FixtureChunk gapped{whole({rows, 50})};
  gapped.gap = 3;
  gapped.storage_offset = 7;
  return {{"rows", DType::int32, large, split(large, 0, 3)},
          {"columns", DType::int32, large, split(large, 1, 4)},
          {"transposed", DType::int64, large, in_order(split(large, 0, 2), {1, 0})},
          {"turned", DType::int16, deep, in_order(split(deep, 2, 2), {2, 0, 1})},
          {"gapped", DType::int32, {rows, 50}, {gapped}},
          {"bytes", DType::uint8, large, split(large, 0, 5)},
          {"wide", DType::complex128, {rows, 9}, split({rows, 9}, 0, 2)},
          {"scalar", DType::float64, {}, {{whole({})}}},
          {"empty", DType::float32, {0, 4}, {{whole({0, 4})}}}};
}

struct Stored {
  TempDir dir;
  std::vector<FixtureTensor> tensors;

  explicit Stored(std::int64_t rows) : tensors(stored_in_all_ways(rows)) {
    DcpFixture fixture;
    for (const FixtureTensor& tensor : tensors) fixture.add(tensor);
    fixture.write(dir, "ckpt");
  }
  std::string path() const { return dir / "ckpt"; }
};

LoadReport load_alone(const std::string& path, LiveState& state, const LoadOptions& options = {},
                      FileSystem& files = posix_file_system()) {
  const auto solo = solo_communicator();
  return load(*solo, files, path, state, options);
}

// All ways of storing, into all kinds of memory: small items and large ones.
TEST(Load, EveryStorageGoesIntoEveryMemory) {
  for (const std::int64_t rows : {40, 2000}) {
    const Stored stored(rows);
    for (const MemoryKind kind : kAllMemory) {
      for (const int threads : {1, 3}) {
        LoadTarget target(0);
        for (const FixtureTensor& tensor : stored.tensors)
          target.add(tensor.name, tensor.dtype, tensor.shape, {whole(tensor.shape)}, kind);
        LoadOptions options;
        options.threads = threads;
        const LoadReport report = load_alone(stored.path(), target.state(), options);
        target.expect_iota();
        EXPECT_GT(report.verified_bytes, 0u);
      }
    }
  }
}

// Boxes that cross chunks, lie inside of them, overlap, are rows, columns, single elements.
TEST(Load, BoxesAnywhereGetTheirElements) {
  std::mt19937 random(5);
  const Stored stored(400);
  for (const MemoryKind kind : kAllMemory) {
    LoadTarget target(0);
    for (const FixtureTensor& tensor : stored.tensors) {
      std::vector<Box> boxes;
      for (int i = 0; i < 12 && !tensor.shape.empty(); ++i) {
        Box box = whole(tensor.shape);
        for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
          if (random() % 3 == 0 || tensor.shape[d] == 0) continue;
          box.offsets[d] = static_cast<std::int64_t>(random()) % tensor.shape[d];
          box.sizes[d] = static_cast<std::int64_t>(random()) % (tensor.shape[d] - box.offsets[d] + 1);
        }
        boxes.push_back(box);
      }
      target.add(tensor.name, tensor.dtype, tensor.shape, boxes, kind);
    }
    load_alone(stored.path(), target.state());
    target.expect_iota();
  }
}

TEST(Load, OnlyWhatIsWantedIsRead) {
  TempDir dir;
  DcpFixture fixture;
  const Shape shape{4096, 512};
  fixture.add({"w", DType::int32, shape, split(shape, 0, 4)});
  fixture.write(dir, "ckpt");
  LoadTarget target(0);
  target.add("w", DType::int32, shape, {{{100, 0}, {300, 512}}});
  FaultyFileSystem files(posix_file_system());
  const LoadReport report = load_alone(dir / "ckpt", target.state(), {}, files);
  target.expect_iota();
  EXPECT_LE(report.read_bytes, 300u * 512 * 4 + 64 * 1024);
  EXPECT_LE(files.count(Operation::open_read).calls, 4u)
      << "some for the kind of the path, .metadata, one shard";
}

TEST(Load, SmallNeighboursAreReadTogether) {
  TempDir dir;
  DcpFixture fixture;
  for (int i = 0; i < 2000; ++i) fixture.add({"s" + std::to_string(i), DType::int32, {64}, {{whole({64})}}});
  fixture.write(dir, "ckpt");
  LoadTarget target(0);
  for (int i = 0; i < 2000; ++i) target.add("s" + std::to_string(i), DType::int32, {64}, {whole({64})});
  FaultyFileSystem files(posix_file_system());
  const LoadReport report = load_alone(dir / "ckpt", target.state(), {}, files);
  target.expect_iota();
  EXPECT_EQ(report.verified_bytes, 2000u * 64 * 4);
  EXPECT_LT(files.count(Operation::read).calls, 60u);
}

// --- what does not fit

struct Misfit {
  TempDir dir;
  LoadTarget target{0};

  Misfit() {
    DcpFixture fixture;
    fixture.add({"good", DType::float32, {4}, {{whole({4})}}});
    fixture.add({"long", DType::float32, {4}, {{whole({4})}}});
    fixture.add({"half", DType::float16, {4}, {{whole({4})}}});
    fixture.add({"left.over", DType::float32, {4}, {{whole({4})}}});
    fixture.add_object("note", "hello");
    fixture.write(dir, "ckpt");
    target.add("good", DType::float32, {4}, {whole({4})});
    target.add("long", DType::float32, {5}, {whole({5})});
    target.add("half", DType::float32, {4}, {whole({4})});
    target.add("absent", DType::float32, {4}, {whole({4})});
    target.add("note", DType::float32, {4}, {whole({4})});
  }
};

TEST(Load, AllMisfitsAreInOneReportAndNothingHasChanged) {
  Misfit misfit;
  const Error error = failure_of([&] { load_alone(misfit.dir / "ckpt", misfit.target.state()); });
  EXPECT_EQ(error.kind(), ErrorKind::mismatch);
  for (const char* part : {"'long'", "[4]", "[5]", "'half'", "float16", "'absent'", "'left.over'", "'note'"})
    EXPECT_TRUE(contains(error, part)) << part << ": " << error.what();
  misfit.target.expect_untouched();
}

TEST(Load, WhatIsAllowedIsReported) {
  TempDir dir;
  DcpFixture fixture;
  fixture.add({"a", DType::float32, {4}, {{whole({4})}}});
  fixture.add({"old.b", DType::float32, {4}, {{whole({4})}}});
  fixture.write(dir, "ckpt");
  for (const bool strict : {false, true}) {
    LoadTarget target(0);
    target.add("a", DType::float32, {4}, {whole({4})});
    target.add("new.c", DType::float32, {4}, {whole({4})});
    LoadOptions options;
    options.plan.strict = strict;
    if (strict) {
      options.plan.allow_missing = {"new.*"};
      options.plan.allow_unexpected = {"old.?"};
    }
    const LoadReport report = load_alone(dir / "ckpt", target.state(), options);
    EXPECT_EQ(report.missing, std::vector<std::string>{"new.c"});
    EXPECT_EQ(report.unexpected, std::vector<std::string>{"old.b"});
    const Bytes a = target.bytes_of(0), c = target.bytes_of(1);
    EXPECT_EQ(a, iota_bytes(Shape{4}, whole({4}), DType::float32));
    EXPECT_EQ(c, Bytes(16, std::byte{0xcd}));
  }
}

// As torch 2.3 saves param_groups; 2.4 gives each leaf a name.
TEST(Load, ValuesAreTakenOutOfObjectsThatWereSavedWhole) {
  const TempDir dir;
  const auto solo = solo_communicator();
  const auto dict = [](std::vector<std::pair<Object, Object>> items) {
    return Object(Object::Dict{std::move(items)});
  };
  LiveState saved(0);
  saved.add_object("optim.groups", Object::List{dict({{"lr", 0.5}, {"betas", Object::Tuple{{0.9, 0.99}}}}),
                                                dict({{"a.b", 1}, {7, dict({{"x", "deep"}})}})});
  saved.add_object("step", 3);
  save(*solo, posix_file_system(), saved, dir / "ckpt");
  LiveState wanted(0);
  for (const char* name :
       {"optim.groups.0.lr", "optim.groups.0.betas", "optim.groups.1.a.b", "optim.groups.1.7.x",
        "optim.groups.0.betas.1", "step", "optim.groups.2.lr", "optim.groups.00.lr", "step.x"})
    wanted.add_object(name, "before");
  const Error error = failure_of([&] { load_alone(dir / "ckpt", wanted); });
  EXPECT_EQ(error.kind(), ErrorKind::mismatch);
  EXPECT_TRUE(contains(error, "3 missing")) << error.what();
  for (const char* name : {"'optim.groups.2.lr'", "'optim.groups.00.lr'", "'step.x'", "/ckpt:"})
    EXPECT_TRUE(contains(error, name)) << error.what();
  EXPECT_EQ(wanted.object(0), Object("before"));
  LoadOptions options;
  options.plan.allow_missing = {"optim.groups.2.*", "*.00.*", "step.?"};
  const LoadReport report = load_alone(dir / "ckpt", wanted, options);
  const std::vector<std::string> missing{"optim.groups.00.lr", "optim.groups.2.lr", "step.x"};
  EXPECT_EQ(report.missing, missing);
  EXPECT_TRUE(report.unexpected.empty());
  const Object expected[] = {0.5,     Object::Tuple{{0.9, 0.99}}, 1, "deep", 0.99, 3, "before", "before",
                             "before"};
  for (std::size_t i = 0; i < std::size(expected); ++i) EXPECT_EQ(wanted.object(i), expected[i]) << i;
}

TEST(Load, TheReportNamesTheCheckpoint) {
  Misfit misfit;
  const Error error = failure_of([&] { load_alone(misfit.dir / "ckpt", misfit.target.state()); });
  EXPECT_TRUE(contains(error, (misfit.dir / "ckpt") + ": state and checkpoint")) << error.what();
}

TEST(Load, CastsThatMayRoundAreNamed) {
  TempDir dir;
  DcpFixture fixture;
  for (const auto& [name, dtype] : {std::pair{"double", DType::float64},
                                    {"single", DType::float32},
                                    {"half", DType::float16},
                                    {"brain", DType::bfloat16}})
    fixture.add({name, dtype, {6}, {{whole({6})}}});
  fixture.write(dir, "ckpt");
  LoadOptions options;
  options.plan.cast = {"*"};
  const auto warnings = [&](DType wanted) {
    LoadTarget target(0);
    for (const char* name : {"single", "half", "brain"}) target.add(name, wanted, {6}, {whole({6})});
    target.add("double", DType::float32, {6}, {whole({6})});
    return load_alone(dir / "ckpt", target.state(), options).warnings;
  };
  const std::vector<std::string> of_double{"values of 1 tensor are rounded: 'double' (float64 as float32)"};
  EXPECT_EQ(warnings(DType::float32), of_double);
  const std::vector<std::string> of_three{
      "values of 3 tensors are rounded: 'brain' (bfloat16 as float16), 'double' (float64 as float32), "
      "'single' "
      "(float32 as float16)"};
  EXPECT_EQ(warnings(DType::float16), of_three);
}

TEST(Load, CastsWhereItIsAskedTo) {
  TempDir dir;
  DcpFixture fixture;
  const Shape small{30}, large{900, 400};
  for (const Shape& shape : {small, large})
    fixture.add(
        {shape.size() == 1 ? "small" : "large", DType::float16, shape, split(shape, shape.size() - 1, 3)});
  fixture.write(dir, "ckpt");
  for (const MemoryKind kind : kAllMemory) {
    LoadTarget target(0);
    target.add("small", DType::float32, small, {whole(small)}, kind);
    target.add("large", DType::float32, large, {{{10, 20}, {800, 300}}}, kind);
    LoadOptions options;
    options.plan.cast = {"*"};
    load_alone(dir / "ckpt", target.state(), options);
    for (std::size_t i = 0; i < 2; ++i) {
      const Shape& shape = i == 0 ? small : large;
      const Box box = i == 0 ? whole(small) : Box{{10, 20}, {800, 300}};
      const Bytes half = iota_bytes(shape, box, DType::float16);
      Bytes expected(2 * half.size());
      cast(expected, DType::float32, half, DType::float16);
      EXPECT_TRUE(target.bytes_of(i) == expected);
    }
  }
}

// --- damage

void flip(const TempDir& dir, const std::string& file, std::size_t at) {
  std::string bytes = dir.read(file);
  bytes.at(at) ^= 1;
  dir.write(file, bytes);
}

TEST(Load, AFlippedBitIsNamed) {
  for (const std::vector<std::size_t>& order : {std::vector<std::size_t>{}, {1, 0}}) {
    for (const std::int64_t rows : {16, 3000}) {
      TempDir dir;
      DcpFixture fixture;
      const Shape shape{rows, 200};
      fixture.add({"the.weight", DType::int32, shape, in_order(split(shape, 0, 2), order)});
      fixture.write(dir, "ckpt");
      flip(dir, "ckpt/__1_0.distcp", static_cast<std::size_t>(rows) * 200);
      LoadTarget target(0);
      target.add("the.weight", DType::int32, shape, {whole(shape)});
      const Error error = failure_of([&] { load_alone(dir / "ckpt", target.state()); });
      EXPECT_EQ(error.kind(), ErrorKind::corrupt);
      for (const char* part : {"'the.weight'", "__1_0.distcp", "at byte", "CRC-32"})
        EXPECT_TRUE(contains(error, part)) << error.what();
      LoadOptions unverified;
      unverified.verify = false;
      EXPECT_EQ(load_alone(dir / "ckpt", target.state(), unverified).verified_bytes, 0u);
      const Bytes expected = iota_bytes(shape, whole(shape), DType::int32);
      const Bytes found = target.bytes_of(0);
      EXPECT_EQ(std::ranges::mismatch(expected, found).in1 == expected.end(), false);
    }
  }
}

// Two boxes that have the halves of an item between them.
TEST(Load, PartsOfAnItemAreComparedTogether) {
  TempDir dir;
  DcpFixture fixture;
  const Shape shape{3000, 200};
  fixture.add({"w", DType::int32, shape, split(shape, 0, 1)});
  fixture.write(dir, "ckpt");
  LoadTarget target(0);
  target.add("w", DType::int32, shape,
             {{{1100, 0}, {1900, 200}}, {{0, 0}, {1100, 200}}, {{0, 0}, {3000, 200}}});
  EXPECT_EQ(load_alone(dir / "ckpt", target.state()).verified_bytes, 3000u * 200 * 4);
  target.expect_iota();
}

// --- objects and entries of single ranks

void add_state(RankState& state, int rank) {
  state.add_tensor("w", DType::float32, TensorLayout::sharded({8}, 0, 4));
  state.add_object("step", 8);
  state.add_rank_object("loader", 8 + static_cast<std::uint64_t>(rank));
}

struct FourRanks {
  TempDir dir;
  FourRanks() {
    std::vector<RankState> states;
    for (int rank = 0; rank < 4; ++rank) add_state(states.emplace_back(rank), rank);
    write_planned(dir, "ckpt", states);
  }
};

LiveState one_rank(LoadTarget& target) {
  target.add("w", DType::float32, {8}, {whole({8})});
  target.state().add_object("step", 0);
  target.state().add_rank_object("loader", "old");
  return target.state();
}

TEST(Load, ObjectsAreReplaced) {
  const FourRanks saved;
  LoadTarget target(0);
  target.add("w", DType::float32, {8}, {whole({8})});
  target.state().add_object("step", 0);
  LoadOptions options;
  options.plan.allow_unexpected = {"loader.*"};
  load_alone(saved.dir / "ckpt", target.state(), options);
  EXPECT_EQ(target.state().object(1), Object("step"));
}

TEST(Load, EntriesOfSingleRanksAreRefusedOnAnotherNumberOfRanks) {
  const FourRanks saved;
  LoadTarget target(0);
  LiveState state = one_rank(target);
  const Error error = failure_of([&] { load_alone(saved.dir / "ckpt", state); });
  EXPECT_EQ(error.kind(), ErrorKind::mismatch);
  EXPECT_TRUE(contains(error, "saved by 4 ranks, loaded by 1")) << error.what();
  EXPECT_TRUE(contains(error, "loader.rank_0")) << error.what();
  target.expect_untouched();
}

TEST(Load, EntriesOfSingleRanksAreKeptOrDroppedWhenAsked) {
  const FourRanks saved;
  LoadOptions options;
  options.rank_entries = RankEntryPolicy::keep;
  LoadTarget first(0);
  LiveState kept = one_rank(first);
  EXPECT_EQ(load_alone(saved.dir / "ckpt", kept, options).dropped,
            (std::vector<std::string>{"loader.rank_1", "loader.rank_2", "loader.rank_3"}));
  EXPECT_EQ(kept.object(2), Object("loader.rank_0"));
  first.expect_iota();

  options.rank_entries = RankEntryPolicy::drop;
  LoadTarget second(0);
  LiveState dropped = one_rank(second);
  EXPECT_EQ(load_alone(saved.dir / "ckpt", dropped, options).dropped.size(), 4u);
  EXPECT_EQ(dropped.object(2), Object("old"));
  second.expect_iota();
}

// --- everything

TEST(LoadAll, GivesAllThatMatches) {
  const Stored stored(40);
  const auto solo = solo_communicator();
  const LoadedState all = load_all(*solo, posix_file_system(), stored.path());
  ASSERT_EQ(all.tensors.size(), stored.tensors.size());
  for (std::size_t i = 0; i < all.tensors.size(); ++i) {
    EXPECT_EQ(all.tensors[i].name, stored.tensors[i].name);
    EXPECT_EQ(all.tensors[i].shape, stored.tensors[i].shape);
    EXPECT_TRUE(all.tensors[i].bytes == expected_payload(stored.tensors[i])) << all.tensors[i].name;
  }
  const LoadedState some = load_all(*solo, posix_file_system(), stored.path(), {"*s", "scalar"});
  std::vector<std::string> names;
  for (const LoadedTensor& tensor : some.tensors) names.push_back(tensor.name);
  EXPECT_EQ(names, (std::vector<std::string>{"rows", "columns", "bytes", "scalar"}));
  const Error error = failure_of([&] {
    load_all(*solo, posix_file_system(), stored.path(), {"rows", "nothing.*"});
  });
  EXPECT_EQ(error.kind(), ErrorKind::not_found);
  EXPECT_TRUE(contains(error, "'nothing.*'")) << error.what();
}

TEST(LoadAll, BringsEntriesOfAllRanks) {
  const FourRanks saved;
  const auto solo = solo_communicator();
  const LoadedState all = load_all(*solo, posix_file_system(), saved.dir / "ckpt");
  std::vector<std::string> names;
  for (const auto& [name, object] : all.objects) {
    EXPECT_EQ(object, Object(name));
    names.push_back(name);
  }
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{"loader.rank_0", "loader.rank_1", "loader.rank_2",
                                             "loader.rank_3", "step"}));
}

}  // namespace
}  // namespace cairn
