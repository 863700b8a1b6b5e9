// SPDX-License-Identifier: BSD-3-Clause
// Live states of all ranks as one torch file: the bytes of a save and its consolidation, or nothing at all.
#include "cairn/consolidate_live.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>

#include "base/fail.hpp"
#include "cairn/load.hpp"
#include "cairn/save.hpp"
#include "failure_of.hpp"
#include "iota_state.hpp"
#include "shared_directory.hpp"
#include "storage/fault.hpp"
#include "world.hpp"

namespace cairn {
namespace {

void nothing(const TempDir&) {}

int ranks() { return world().size(); }

ConsolidateOptions with_mode(WriteMode mode) {
  ConsolidateOptions options;
  options.write = mode;
  options.sync = false;
  return options;
}
constexpr WriteMode kModes[] = {WriteMode::gather, WriteMode::shared};

// A tensor of each kind of layout, by its name.
struct LaidOut {
  std::string name;
  DType dtype;
  TensorLayout layout;
  Order order = Order::row_major;
};

std::vector<std::int64_t> uneven(std::int64_t total) {  // the last rank has nothing, where there are two
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(ranks()), 0);
  for (std::size_t r = 0; total > 0; ++r) {
    const bool is_last = r + 2 >= sizes.size();
    sizes[r] = is_last ? total : std::min<std::int64_t>(total, static_cast<std::int64_t>(2 * r + 1));
    total -= sizes[r];
  }
  return sizes;
}

std::vector<LaidOut> layouts() {
  using L = TensorLayout;
  const int n = ranks();
  std::vector<LaidOut> all{
      {"model.rows", DType::float32, L::sharded({37, 11}, 0, n)},
      {"model.columns", DType::bfloat16, L::sharded({9, 50}, 1, n)},
      {"model.wide_columns", DType::float64, L::sharded({3, 30'001}, 1, n)},
      {"model.large", DType::int32, L::sharded({901, 1'001}, 0, n)},
      {"model.large_columns", DType::int16, L::sharded({400, 1'003}, 1, n)},
      {"model.replicated", DType::float64, L::replicated({13, 7}, n)},
      {"uneven", DType::uint8, L::sharded({31, 3}, 0, uneven(31))},
      {"few_rows", DType::int16, L::sharded({2, 5}, 0, n)},
      {"strided", DType::complex64, L::sharded({40, 5, 6}, 1, n), Order::reversed_dims},
      {"large_strided", DType::int64, L::replicated({100, 500}, n), Order::reversed_dims},
      {"scalar", DType::int64, L::replicated({}, n)},
      {"empty", DType::float16, L::replicated({0, 4}, n)},
      {"flags", DType::boolean, L::replicated({3, 3}, n)},
  };
  if (n % 2 == 0) {
    const Mesh mesh({2, n / 2});
    all.push_back(
        {"grid", DType::complex128, L::on_mesh({60, 100}, mesh, {Placement::shard(0), Placement::shard(1)})});
    all.push_back(
        {"hybrid", DType::float32, L::on_mesh({16, 3}, mesh, {Placement::replicate(), Placement::shard(0)})});
  }
  for (int i = 0; i < 200; ++i)
    all.push_back({"small." + std::to_string(i), DType::uint8, L::sharded({i + 1}, 0, n)});
  return all;
}

void add_tensors(IotaState& state, bool filled) {
  std::uint64_t seed = 0;
  for (const LaidOut& tensor : layouts())
    state.add(tensor.name, tensor.dtype, tensor.layout, seed++, filled, tensor.order);
}

void add_objects(LiveState& state) {
  LiveNode::List groups;
  groups.emplace_back(LiveNode::Dict{{"lr", Object(0.5)}, {"params", Object(Object::List{0, 1})}});
  state.add_tree({{"optim", LiveNode::Dict{{"groups", std::move(groups)}, {"step", Object(3)}}}});
  state.add_object("name", "grün \n");
  state.add_object("nested", Object::Dict{{{"betas", Object::Tuple{{0.9, 0.999}}}, {2, Object()}}});
  state.add_object("blob", Object::Data{Bytes(200'000, std::byte{7})});
  state.add_rank_object("loader", state.description().rank());
}

// Rows r, r + ranks, … are boxes of rank r, of memory that they lie in the wrong way round.
void add_dealt_rows(LiveState& state) {
  constexpr std::int64_t kRows = 23, kColumns = 1'000;
  static std::vector<std::int32_t> elements;
  elements.clear();
  for (std::int32_t i = kRows * kColumns; i > 0; --i) elements.push_back(i - 1);
  std::vector<LiveState::LocalBox> boxes;
  for (std::int64_t row = world().rank(); row < kRows; row += ranks()) {
    TensorView view = TensorView::contiguous(
        DType::int32, {1, kColumns}, &elements[static_cast<std::size_t>((kRows - row) * kColumns - 1)]);
    view.strides[1] = -1;
    boxes.push_back({{{row, 0}, {1, kColumns}}, view});
  }
  state.add_tensor("dealt", DType::int32, std::vector<std::int64_t>{kRows, kColumns}, boxes);
}

void fill(IotaState& state) {
  add_tensors(state, true);
  add_dealt_rows(state.live);
  add_objects(state.live);
}

// On rank 0; elsewhere empty.
std::string read(const SharedDirectory& dir, const std::string& name) {
  return dir.mine() == nullptr ? std::string() : dir.mine()->read(name);
}

// What is in the directory; the others learn it from rank 0.
std::string names(const SharedDirectory& dir) {
  Bytes text;
  if (world().rank() == 0) {
    for (const std::string& name : posix_file_system().list(dir.path()))
      for (const char c : name + " ") text.push_back(static_cast<std::byte>(c));
  }
  world().broadcast(text, 0);
  return std::string(as_text(text));
}

// What save and consolidate make of the state, as `folder`/out.pth.
void by_way_of_dcp(const LiveState& state, const SharedDirectory& dir, const std::string& folder,
                   ConsolidateOptions options = with_mode(WriteMode::automatic)) {
  SaveOptions unsynced;
  unsynced.sync = false;
  save(world(), posix_file_system(), state, dir.path() + "/" + folder + "-dcp", unsynced);
  options.source = dir.path() + "/" + folder + "-dcp";
  options.destination = dir.path() + "/" + folder + "/out.pth";
  consolidate(world(), posix_file_system(), options);
}

void expect_same(const SharedDirectory& dir, const std::string& file, const std::string& other) {
  if (dir.mine() == nullptr) return;
  const std::string a = read(dir, file), b = read(dir, other);
  EXPECT_GT(a.size(), 0u);
  EXPECT_TRUE(a == b) << file << " has " << a.size() << " bytes, " << other << " " << b.size();
}

// The first one: what is left over from others would hide what this one takes.
TEST(ConsolidateLive, HoldsNoMoreThanItMayBesideTheState) {
  const SharedDirectory dir(nothing);
  const std::int64_t rows = 48 << 10;
  const auto layout = TensorLayout::sharded({rows, 1024}, 0, ranks());
  std::vector<std::byte> memory(48 << 20, std::byte{1});
  std::uint64_t before = 0;
  for (const std::int64_t part : {std::int64_t{8}, rows}) {
    LiveState state(world().rank());
    const auto here = part == rows ? layout : TensorLayout::sharded({part, 1024}, 0, ranks());
    state.add_tensor("w", here,
                     TensorView::contiguous(DType::uint8, here.local_shape(world().rank()), memory.data()));
    for (const WriteMode mode : kModes) {
      auto options = with_mode(mode);
      options.overwrite = true;
      options.threads = 1;
      options.max_memory = 4ull << 20;
      const auto report = consolidate(world(), posix_file_system(), state, dir.path() + "/out.pth", options);
      if (part != rows) {
        before = report.peak_rss_bytes;
        continue;
      }
      const auto of_messages = 6ull << 20;  // of the allocator and MPI
      EXPECT_LE(report.peak_rss_bytes, before + options.max_memory + of_messages);
    }
  }
}

TEST(ConsolidateLive, IsByteForByteASaveConsolidated) {
  const SharedDirectory dir(nothing);
  IotaState state(world().rank());
  fill(state);
  by_way_of_dcp(state.live, dir, "dcp");
  for (const WriteMode mode : kModes) {
    const std::string folder = mode == WriteMode::gather ? "gather" : "shared";
    const std::string file = dir.path() + "/" + folder + "/out.pth";
    const auto report = consolidate(world(), posix_file_system(), state.live, file, with_mode(mode));
    expect_same(dir, folder + "/out.pth", "dcp/out.pth");
    ASSERT_EQ(report.outputs.size(), 1u);
    EXPECT_EQ(report.outputs[0].tensors, layouts().size() + 1);
    EXPECT_EQ(report.ranks, ranks());
  }
}

TEST(ConsolidateLive, HoldsEveryElementWhereItBelongs) {
  const SharedDirectory dir(nothing);
  IotaState state(world().rank()), found(world().rank());
  fill(state);
  consolidate(world(), posix_file_system(), state.live, dir.path() + "/out.pth");
  add_tensors(found, false);
  LoadOptions options;
  options.plan.allow_unexpected = {"*"};
  load(world(), posix_file_system(), dir.path() + "/out.pth", found.live, options);
  for (std::size_t i = 0; i < found.live.size(); ++i)
    EXPECT_EQ(found.wrong_bytes(i, i), 0u) << layouts()[i].name;
}

TEST(ConsolidateLive, RulesAndShapesOfTheFileAreThoseOfConsolidate) {
  const SharedDirectory dir(nothing);
  IotaState state(world().rank());
  fill(state);
  const auto check = [&](const std::string& folder, const ConsolidateOptions& options) {
    by_way_of_dcp(state.live, dir, folder + "-dcp", options);
    consolidate(world(), posix_file_system(), state.live, dir.path() + "/" + folder + "/out.pth", options);
    expect_same(dir, folder + "/out.pth", folder + "-dcp/out.pth");
  };
  ConsolidateOptions flat = with_mode(WriteMode::gather);
  flat.flat = true;
  flat.alignment = 4096;
  check("flat", flat);
  ConsolidateOptions chosen = with_mode(WriteMode::shared);
  chosen.names.select = {"model.*"};
  chosen.names.cast = {"model.rows=float16"};
  chosen.objects = ObjectPolicy::drop;
  check("chosen", chosen);
}

TEST(ConsolidateLive, ObjectsAloneAndNothingAtAllAreStates) {
  const SharedDirectory dir(nothing);
  LiveState objects(world().rank());
  add_objects(objects);
  if (world().rank() == ranks() - 1) objects.add_object("only_here", 1);
  const LiveState none(world().rank());
  by_way_of_dcp(objects, dir, "objects-dcp");
  by_way_of_dcp(none, dir, "none-dcp");
  for (const WriteMode mode : kModes) {
    auto options = with_mode(mode);
    options.overwrite = true;
    consolidate(world(), posix_file_system(), objects, dir.path() + "/objects/out.pth", options);
    consolidate(world(), posix_file_system(), none, dir.path() + "/none/out.pth", options);
    expect_same(dir, "objects/out.pth", "objects-dcp/out.pth");
    expect_same(dir, "none/out.pth", "none-dcp/out.pth");
  }
}

// A file that torch wrote, of a value with a tensor inside: its bytes go from the rank that has it.
TEST(ConsolidateLive, TensorsInsideOfStoredObjectsAreCopied) {
  const SharedDirectory dir(nothing);
  IotaState inner(0);
  const auto solo = solo_communicator();
  inner.add("w", DType::float32, TensorLayout::replicated({700, 500}, 1), 5);
  const std::string file = dir.path() + "/inner" + std::to_string(world().rank()) + ".pth";
  consolidate(*solo, posix_file_system(), inner.live, file);
  Object::Stored stored;
  const auto opened = posix_file_system().open_read(file);
  stored.bytes.resize(opened->size());
  opened->read(0, stored.bytes);

  IotaState state(world().rank());
  add_tensors(state, true);
  if (world().rank() == ranks() - 1) state.live.add_object("stored", stored);
  by_way_of_dcp(state.live, dir, "dcp");
  for (const WriteMode mode : kModes) {
    auto options = with_mode(mode);
    options.overwrite = true;
    const auto report =
        consolidate(world(), posix_file_system(), state.live, dir.path() + "/live/out.pth", options);
    expect_same(dir, "live/out.pth", "dcp/out.pth");
    EXPECT_EQ(report.verified_bytes, 700u * 500 * 4);
  }
}

TEST(ConsolidateLive, TheBytesDoNotDependOnThreadsAndMemory) {
  const SharedDirectory dir(nothing);
  IotaState state(world().rank());
  fill(state);
  by_way_of_dcp(state.live, dir, "dcp");
  for (const WriteMode mode : kModes) {
    auto options = with_mode(mode);
    options.overwrite = true;
    options.threads = mode == WriteMode::gather ? 5 : 1;
    options.max_memory = mode == WriteMode::gather ? 32ull << 20 : 3ull << 20;  // less than model.large
    consolidate(world(), posix_file_system(), state.live, dir.path() + "/live/out.pth", options);
    expect_same(dir, "live/out.pth", "dcp/out.pth");
  }
}

// --- what is refused, what fails ------------------------------------------------------------------------

TEST(ConsolidateLive, AnOutputThatIsThereStaysUnlessItMayGo) {
  const SharedDirectory dir([](const TempDir& mine) { mine.write("out.pth", "the old one"); });
  IotaState state(world().rank());
  fill(state);
  for (const WriteMode mode : kModes) {
    const Error error = failure_of([&] {
      consolidate(world(), posix_file_system(), state.live, dir.path() + "/out.pth", with_mode(mode));
    });
    EXPECT_EQ(error.kind(), ErrorKind::already_exists);
    if (world().rank() == 0) {
      EXPECT_EQ(read(dir, "out.pth"), "the old one");
    }
  }
  ConsolidateOptions options;
  options.overwrite = true;
  consolidate(world(), posix_file_system(), state.live, dir.path() + "/out.pth", options);
  EXPECT_NE(read(dir, "out.pth"), "the old one");
}

TEST(ConsolidateLive, WhatDoesNotHoldIsToldOnAllRanks) {
  const SharedDirectory dir(nothing);
  const LiveState none(world().rank()), of_another(world().rank() + 1);
  const auto kind_of = [&](const LiveState& state, const ConsolidateOptions& options) {
    return failure_of(
               [&] { consolidate(world(), posix_file_system(), state, dir.path() + "/out.pth", options); })
        .kind();
  };
  ConsolidateOptions options;
  EXPECT_EQ(kind_of(of_another, options), ErrorKind::invalid_argument);
  options.resume = true;
  EXPECT_EQ(kind_of(none, options), ErrorKind::invalid_argument);
  options = {};
  options.source = "somewhere";
  EXPECT_EQ(kind_of(none, options), ErrorKind::invalid_argument);
  options = {};
  options.copy = CopyMode::kernel;
  EXPECT_EQ(kind_of(none, options), ErrorKind::invalid_argument);
  options = {};
  options.max_memory = 1;
  EXPECT_EQ(kind_of(none, options), ErrorKind::invalid_argument);

  IotaState state(world().rank());
  const auto shape = world().rank() == 1 ? TensorLayout::Shape{4, 5} : TensorLayout::Shape{4, 4};
  state.add("w", DType::float32, TensorLayout::replicated(shape, ranks()), 0);
  if (ranks() > 1) {
    EXPECT_EQ(kind_of(state.live, {}), ErrorKind::mismatch);
  }
  EXPECT_EQ(names(dir), "");
}

// A hole is found before anything is made.
TEST(ConsolidateLive, AnElementThatNobodyHasIsAnError) {
  const SharedDirectory dir(nothing);
  std::int32_t value = 1;
  LiveState state(world().rank());
  const LiveState::LocalBox first{{{0}, {1}}, TensorView::contiguous(DType::int32, {1}, &value)};
  state.add_tensor("w", DType::int32, std::vector<std::int64_t>{2}, std::span(&first, 1));
  const Error error =
      failure_of([&] { consolidate(world(), posix_file_system(), state, dir.path() + "/out.pth"); });
  EXPECT_EQ(error.kind(), ErrorKind::mismatch);
  EXPECT_TRUE(contains(error, "'w'")) << error.what();
  EXPECT_EQ(names(dir), "");
}

struct Failing {
  Operation operation;
  const char* path;
};
const Failing kSteps[] = {
    {Operation::create, ".cairn-part"},     {Operation::allocate, ".cairn-part"},
    {Operation::open_write, ".cairn-part"}, {Operation::write, ".cairn-part"},
    {Operation::sync, ".cairn-part"},       {Operation::close, ".cairn-part"},
    {Operation::rename, "out.pth"},
};

// Whether the run failed; then as it must, when the step does on this rank.
bool fails(const SharedDirectory& dir, const LiveState& state, WriteMode mode, const Failing& step, int bad) {
  FaultyFileSystem files(posix_file_system());
  if (world().rank() == bad)
    files.inject({.operation = step.operation, .path_contains = step.path, .error_number = EIO});
  auto options = with_mode(mode);
  options.overwrite = true;
  options.sync = step.operation == Operation::sync;
  std::optional<Error> error;
  try {
    consolidate(world(), files, state, dir.path() + "/out.pth", options);
  } catch (const Error& thrown) {
    error = thrown;
  }
  EXPECT_NE(agree(world(), error ? 1 : 2), 3u) << "ranks left differently";
  EXPECT_EQ(names(dir), "out.pth ");
  if (!error) return false;
  EXPECT_EQ(error->kind(), ErrorKind::io) << error->what();
  EXPECT_TRUE(!error->failures().empty() && error->failures()[0].rank == bad) << error->what();
  return true;
}

TEST(ConsolidateLive, AFailureOnAnyRankAtAnyStepIsEverybodys) {
  const SharedDirectory dir([](const TempDir& mine) { mine.write("out.pth", "the old one"); });
  IotaState state(world().rank());
  state.add("w", DType::uint8, TensorLayout::sharded({ranks(), 1 << 20}, 1, ranks()), 0);
  add_objects(state.live);
  int failed = 0;
  for (const WriteMode mode : kModes) {
    for (const Failing& step : kSteps) {
      // of those that write no file one is as good as another
      const int next = mode == WriteMode::gather ? std::max(1, ranks() - 1) : 1;
      for (int bad = 0; bad < ranks(); bad += next) {
        const bool has_failed = fails(dir, state.live, mode, step, bad);
        failed += has_failed;
        EXPECT_TRUE(has_failed || bad > 0) << static_cast<int>(step.operation);
        if (dir.mine() != nullptr) {
          EXPECT_EQ(dir.mine()->read("out.pth") == "the old one", has_failed);
          dir.mine()->write("out.pth", "the old one");
        }
        barrier(world());
      }
    }
  }
  // where all write each rank opens, writes, syncs and closes
  EXPECT_EQ(failed, 2 * static_cast<int>(std::size(kSteps)) + 4 * (ranks() - 1));
}

// Memory that is read through calls, as a GPU's; they may fail.
class PlayedDevice final : public DeviceMemory {
 public:
  void copy_out(const std::byte* from, std::span<std::byte> into) override {
    if (is_broken) fail(ErrorKind::io, "the device does not answer");
    std::memcpy(into.data(), from, into.size());
  }
  void copy_in(std::span<const std::byte>, std::byte*) override { fail(ErrorKind::io, "nothing is written"); }
  bool is_broken = false;
};

void put_on(PlayedDevice* device, LiveState& state, std::vector<std::byte>& memory) {
  const auto layout = TensorLayout::sharded({2'000, 300}, 1, ranks());
  TensorView view = TensorView::contiguous(DType::int32, layout.local_shape(world().rank()), nullptr);
  memory.resize(view.byte_count());
  for (std::size_t i = 0; i < memory.size(); ++i)
    memory[i] = iota_byte(i, static_cast<std::uint64_t>(world().rank()));
  view.data = memory.data();
  view.device = device;
  state.add_tensor("w", layout, view);
}

TEST(ConsolidateLive, MemoryOfDevicesIsCopiedOut) {
  const SharedDirectory dir(nothing);
  PlayedDevice device;
  std::vector<std::byte> memory;
  LiveState state(world().rank()), plain(world().rank());
  put_on(&device, state, memory);
  put_on(nullptr, plain, memory);
  by_way_of_dcp(plain, dir, "plain");
  for (const WriteMode mode : kModes) {
    auto options = with_mode(mode);
    options.overwrite = true;
    consolidate(world(), posix_file_system(), state, dir.path() + "/device/out.pth", options);
    expect_same(dir, "device/out.pth", "plain/out.pth");
  }
}

TEST(ConsolidateLive, ADeviceThatFailsIsLaidAtTheDoorOfItsRank) {
  const SharedDirectory dir([](const TempDir& mine) { mine.write("out.pth", "the old one"); });
  for (const WriteMode mode : kModes) {
    for (int bad = 0; bad < ranks(); ++bad) {
      PlayedDevice device;
      device.is_broken = world().rank() == bad;
      std::vector<std::byte> memory;
      LiveState state(world().rank());
      put_on(&device, state, memory);
      auto options = with_mode(mode);
      options.overwrite = true;
      const Error error = failure_of(
          [&] { consolidate(world(), posix_file_system(), state, dir.path() + "/out.pth", options); });
      EXPECT_EQ(error.kind(), ErrorKind::io);
      EXPECT_TRUE(contains(error, "the device does not answer") && contains(error, "'w'")) << error.what();
      ASSERT_FALSE(error.failures().empty());
      for (const auto& failure : error.failures()) EXPECT_EQ(failure.rank, bad) << error.what();
      EXPECT_EQ(names(dir), "out.pth ");
      if (world().rank() == 0) {
        EXPECT_EQ(read(dir, "out.pth"), "the old one");
      }
    }
  }
}

TEST(ConsolidateLive, WorksOnAPartOfTheJob) {
  const SharedDirectory dir(nothing);
  const int color = world().rank() % 2;
  const auto half = world().split(color, world().rank());
  IotaState state(half->rank());
  state.add("w", DType::float32, TensorLayout::sharded({400, 7}, 0, half->size()), 3);
  for (const WriteMode mode : kModes) {
    auto options = with_mode(mode);
    options.overwrite = true;
    const std::string file = dir.path() + "/" + std::to_string(color) + "/out.pth";
    consolidate(*half, posix_file_system(), state.live, file, options);
    barrier(world());
    if (ranks() > 1) expect_same(dir, "0/out.pth", "1/out.pth");
    barrier(world());
  }
}

}  // namespace
}  // namespace cairn
