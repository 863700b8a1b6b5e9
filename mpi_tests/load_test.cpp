// SPDX-License-Identifier: BSD-3-Clause
// Saved by N ranks, loaded by M: all pairs in one launch, by parts of the world.
#include "cairn/load.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>

#include "base/fail.hpp"
#include "cairn/checkpoint.hpp"
#include "cairn/save.hpp"
#include "failure_of.hpp"
#include "forwarding_communicator.hpp"
#include "iota_state.hpp"
#include "load_fixture.hpp"
#include "shared_directory.hpp"
#include "storage/fault.hpp"

namespace cairn {
namespace {

/// The first `ranks` of the world, and the others: they load, too.
std::unique_ptr<Communicator> first_ranks(int ranks) {
  return world().split(world().rank() < ranks ? 0 : 1, 0);
}

void add_objects(LiveState& state) {
  for (int i = 0; i < 6; ++i) state.add_object("o" + std::to_string(i), "before");
}

void expect_objects(const LiveState& state) {
  for (std::size_t entry = 0; entry < state.size(); ++entry) {
    if (state.description().is_tensor(entry)) continue;
    EXPECT_EQ(state.object(entry), Object(std::string(state.description().name(entry))));
  }
}

/// A failed rank must not leave the others alone: what was thrown, on all of them.
template <class Body>
Error same_failure(Communicator& comm, Body&& body) {
  const Error error = failure_of(body);
  for (const Bytes& theirs : comm.gather(as_bytes(error.what()), 0)) EXPECT_EQ(as_text(theirs), error.what());
  return error;
}

// Uneven, empty, column, mesh, strided, listed and replicated layouts, drawn anew for each side.
TEST(Load, AnyLayoutOnAnyNumberOfRanksLoadsIntoAnyOther) {
  for (int from = 1; from <= 8; ++from) {
    std::mt19937 random(static_cast<unsigned>(from));
    RandomState state(random, from);
    const SharedDirectory saved([&](const TempDir& dir) {
      write_planned(dir, "ckpt", state.of_all_ranks(), {ReplicaRule::balanced, 30 * (random() % 2), 2});
    });
    random.seed(100u + static_cast<unsigned>(from));  // only rank 0 has drawn for the save
    for (int to = 1; to <= world().size(); ++to) {
      const auto comm = first_ranks(to);
      std::mt19937 mine(static_cast<unsigned>(1000 * from + 10 * to + comm->size()));
      state.lay_out(mine, comm->size());
      LoadTarget target(comm->rank());
      const auto layouts = state.of_all_ranks();
      const RankState& wanted = layouts[static_cast<std::size_t>(comm->rank())];
      for (std::size_t entry = 0; entry < wanted.size(); ++entry) {
        if (!wanted.is_tensor(entry)) continue;
        std::vector<Box> boxes;
        for (std::size_t b = 0; b < wanted.box_count(entry); ++b) {
          const BoxView box = wanted.box(entry, b);
          boxes.push_back({{box.offsets.begin(), box.offsets.end()}, {box.sizes.begin(), box.sizes.end()}});
        }
        const auto shape = wanted.shape(entry);
        target.add(std::string(wanted.name(entry)), wanted.dtype(entry), {shape.begin(), shape.end()}, boxes,
                   kAllMemory[mine() % std::size(kAllMemory)]);
      }
      add_objects(target.state());
      LoadOptions options;
      options.threads = 1 + to % 2;
      options.read_once = static_cast<ReadOnce>(from % 3);
      load(*comm, posix_file_system(), saved.path() + "/ckpt", target.state(), options);
      target.expect_iota();
      expect_objects(target.state());
    }
  }
}

// The other verb's directories, columns where there were rows.
TEST(Load, WhatSaveWroteLoadsOnAnyNumberOfRanks) {
  const SharedDirectory saved([](const TempDir&) {});
  const auto fill = [](IotaState& state, int ranks, std::size_t dim, bool filled) {
    state.add("w", DType::float32, TensorLayout::sharded({301, 203}, dim, ranks), 1, filled);
    state.add("b", DType::bfloat16, TensorLayout::replicated({5000}, ranks), 2, filled, Order::reversed_dims);
    state.add("scalar", DType::int64, TensorLayout::replicated({}, ranks), 3, filled);
    state.live.add_object("step", filled ? 7 : 0);
    state.live.add_rank_object("loader", filled ? state.live.description().rank() : -1);
  };
  SaveOptions save_options;
  save_options.sync = false;
  IotaState before(world().rank());
  fill(before, world().size(), 0, true);
  save(world(), posix_file_system(), before.live, saved.path() + "/ckpt", save_options);
  for (int to = 1; to <= world().size(); ++to) {
    const auto comm = first_ranks(to);
    IotaState after(comm->rank());
    fill(after, comm->size(), 1, false);
    LoadOptions options;
    options.rank_entries = RankEntryPolicy::keep;
    const LoadReport report = load(*comm, posix_file_system(), saved.path() + "/ckpt", after.live, options);
    for (std::uint64_t entry = 0; entry < 3; ++entry) EXPECT_EQ(after.wrong_bytes(entry, entry + 1), 0u);
    EXPECT_EQ(after.live.object(3), Object(7));
    EXPECT_EQ(after.live.object(4), Object(comm->rank()));
    EXPECT_EQ(report.dropped.size(), static_cast<std::size_t>(world().size() - comm->size()));
  }
}

// --- read once

constexpr std::int64_t kRows = 2000, kColumns = 550;

/// Two large tensors and many small ones; one rank saved them.
class Replicated : public SharedDirectory {
 public:
  Replicated()
      : SharedDirectory([](const TempDir& dir) {
          DcpFixture fixture;
          for (const char* name : {"a", "b"})
            fixture.add({name, DType::float32, {kRows, kColumns}, split({kRows, kColumns}, 0, 3)});
          for (int i = 0; i < 300; ++i)
            fixture.add({"s" + std::to_string(i), DType::int16, {40}, {{{{0}, {40}}}}});
          fixture.add_object("note", "hello");
          fixture.write(dir, "ckpt");
        }) {}

  std::string path() const { return SharedDirectory::path() + "/ckpt"; }
  /// Collective. Of a payload.
  void flip_a_bit(const std::string& file) const {
    if (mine() != nullptr) {
      std::string bytes = mine()->read(file);
      bytes.at(bytes.size() / 4) ^= 1;
      mine()->write(file, bytes);
    }
    barrier(world());
  }
  static constexpr std::uint64_t kBytes = 2 * kRows * kColumns * 4 + 300 * 80;

  static void want_all(LoadTarget& target, MemoryKind kind = MemoryKind::contiguous,
                       DType dtype = DType::float32) {
    for (const char* name : {"a", "b"})
      target.add(name, dtype, {kRows, kColumns}, {{{0, 0}, {kRows, kColumns}}}, kind);
    for (int i = 0; i < 300; ++i)
      target.add("s" + std::to_string(i), DType::int16, {40}, {{{0}, {40}}}, kind);
    target.state().add_object("note", "");
  }
};

TEST(Load, ReplicasAreReadOnceAndSent) {
  const Replicated saved;
  for (const MemoryKind kind : {MemoryKind::contiguous, MemoryKind::gaps, MemoryKind::device}) {
    for (const ReadOnce read_once : {ReadOnce::on, ReadOnce::off, ReadOnce::automatic}) {
      LoadTarget target(world().rank());
      Replicated::want_all(target, kind);
      LoadOptions options;
      options.read_once = read_once;
      const LoadReport report = load(world(), posix_file_system(), saved.path(), target.state(), options);
      target.expect_iota();
      EXPECT_EQ(target.state().object(302), Object("hello"));
      const auto ranks = static_cast<std::uint64_t>(world().size());
      const bool once = read_once != ReadOnce::off;
      EXPECT_GE(report.read_bytes, (once ? 1 : ranks) * Replicated::kBytes);
      if (once) {
        EXPECT_EQ(report.received_bytes, (ranks - 1) * Replicated::kBytes);
        EXPECT_LT(report.read_bytes, Replicated::kBytes * 5 / 4 + ranks * (300 << 10))
            << "small items have heads";
        EXPECT_EQ(report.verified_bytes, Replicated::kBytes) << "parts of items were read by several ranks";
      }
    }
  }
}

// As a save that spreads replicas leaves them: one in the file of each rank.
TEST(Load, ScalarsInManyFilesAreReadFromEachFileOnce) {
  constexpr int kFiles = 150;
  const SharedDirectory saved([](const TempDir& dir) {
    DcpFixture fixture;
    for (int i = 0; i < kFiles; ++i)
      fixture.add({"s" + std::to_string(i),
                   DType::float32,
                   {},
                   {{{{}, {}}, "__" + std::to_string(i) + "_0.distcp"}}});
    fixture.write(dir, "ckpt");
  });
  FaultyFileSystem files(posix_file_system());
  LoadTarget target(world().rank());
  for (int i = 0; i < kFiles; ++i) target.add("s" + std::to_string(i), DType::float32, {}, {{{}, {}}});
  load(world(), files, saved.path() + "/ckpt", target.state());
  target.expect_iota();
  const std::uint64_t mine = files.count(Operation::open_read).calls;
  std::uint64_t opened = 0;
  for (const Bytes& theirs : world().gather(std::as_bytes(std::span(&mine, 1)), 0)) {
    std::uint64_t calls = 0;
    std::memcpy(&calls, theirs.data(), sizeof calls);
    opened += calls;
  }
  EXPECT_LT(opened, kFiles + 20u) << "and what the metadata takes";
}

TEST(Load, ReplicasCanBeCast) {
  const Replicated saved;
  LoadTarget target(world().rank());
  Replicated::want_all(target, MemoryKind::contiguous, DType::bfloat16);
  LoadOptions options;
  options.read_once = ReadOnce::on;
  options.plan.cast = {"?"};
  load(world(), posix_file_system(), saved.path(), target.state(), options);
  const auto solo = solo_communicator();
  LoadTarget alone(0);
  Replicated::want_all(alone, MemoryKind::contiguous, DType::bfloat16);
  load(*solo, posix_file_system(), saved.path(), alone.state(), options);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(target.bytes_of(i) == alone.bytes_of(i));
}

// Replicas of a mesh: the ranks of each parity want the same half.
TEST(Load, EachGroupOfReplicasReadsItsOwn) {
  const Replicated saved;
  LoadTarget target(world().rank());
  const std::int64_t half = kRows / 2, first = world().rank() % 2 * half;
  for (const char* name : {"a", "b"})
    target.add(name, DType::float32, {kRows, kColumns}, {{{first, 0}, {half, kColumns}}});
  LoadOptions options;
  options.plan.strict = false;
  options.read_once = ReadOnce::on;
  const LoadReport report = load(world(), posix_file_system(), saved.path(), target.state(), options);
  target.expect_iota();
  EXPECT_LT(report.read_bytes, Replicated::kBytes * 5 / 4);
}

// --- columns of rows

/// A part of the columns of one tensor, of the rows of the other: those of neighbours overlap, the last rank
/// of many wants none.
void want_columns(LoadTarget& target, MemoryKind kind) {
  const std::int64_t ranks = world().size(), rank = world().rank();
  const std::int64_t step = kColumns / ranks, first = rank * step;
  if (ranks > 2 && rank == ranks - 1) return;
  target.add("a", DType::float32, {kRows, kColumns},
             {{{0, first}, {kRows, std::min(step + 3, kColumns - first)}}}, kind);
  target.add("b", DType::float32, {kRows, kColumns},
             {{{rank, first}, {kRows / 2, step}}, {{kRows / 2, 1}, {7, kColumns - 1}}}, kind);
}

TEST(Load, ColumnsOfRowsAreReadOnceOnANode) {
  const Replicated saved;
  for (const MemoryKind kind : {MemoryKind::contiguous, MemoryKind::columns_first, MemoryKind::device}) {
    for (const ReadOnce read_once : {ReadOnce::on, ReadOnce::off}) {
      LoadTarget target(world().rank());
      want_columns(target, kind);
      LoadOptions options;
      options.plan.strict = false;
      options.read_once = read_once;
      options.threads = kind == MemoryKind::device ? 1 : 2;
      const LoadReport report = load(world(), posix_file_system(), saved.path(), target.state(), options);
      target.expect_iota();
      if (read_once == ReadOnce::on && world().size() > 1) {
        EXPECT_LT(report.read_bytes, Replicated::kBytes * 5 / 4);
      }
    }
  }
}

TEST(Load, WhatANodeReadsTogetherIsCompared) {
  const Replicated saved;
  saved.flip_a_bit("ckpt/__1_0.distcp");
  if (world().size() == 1) return;  // it reads no column whole
  LoadTarget target(world().rank());
  for (const char* name : {"a", "b"})
    target.add(name, DType::float32, TensorLayout::sharded({kRows, kColumns}, 1, world().size()));
  LoadOptions options;
  options.plan.strict = false;
  options.read_once = ReadOnce::on;
  const Error error = same_failure(
      world(), [&] { load(world(), posix_file_system(), saved.path(), target.state(), options); });
  EXPECT_EQ(error.kind(), ErrorKind::corrupt);
  EXPECT_TRUE(contains(error, "__1_0.distcp")) << error.what();
}

// --- failures

/// Takes some bytes, then no more.
class FullDevice final : public DeviceMemory {
 public:
  explicit FullDevice(int copies) : left_(copies) {}
  void copy_out(const std::byte*, std::span<std::byte>) override {}
  void copy_in(std::span<const std::byte>, std::byte*) override {
    if (left_-- <= 0) fail(ErrorKind::io, "the device is gone");
  }

 private:
  std::atomic<int> left_;
};

TEST(Load, ADeviceThatFailsWhileOthersReadForItIsEverybodysFailure) {
  const Replicated saved;
  for (const int copies : {0, 5}) {
    for (int bad = 0; bad < world().size(); ++bad) {
      FullDevice device(copies);
      const auto layout = TensorLayout::sharded({kRows, kColumns}, 1, world().size());
      const auto sizes = layout.local_shape(world().rank());
      Bytes memory(static_cast<std::size_t>(element_count(sizes)) * 4);
      TensorView view = TensorView::contiguous(DType::float32, sizes, memory.data());
      if (world().rank() == bad) view.device = &device;
      LiveState state(world().rank());
      state.add_tensor("a", layout, view);
      LoadOptions options;
      options.plan.strict = false;
      options.read_once = ReadOnce::on;
      const Error error =
          same_failure(world(), [&] { load(world(), posix_file_system(), saved.path(), state, options); });
      EXPECT_TRUE(contains(error, "the device is gone")) << error.what();
      ASSERT_EQ(error.failures().size(), 1u) << error.what();
      EXPECT_EQ(error.failures()[0].rank, bad);
    }
  }
}

// Operation x rank x way of reading: the same error everywhere, and nobody is left waiting.
TEST(Load, AFailureOnAnyRankIsEverybodys) {
  const Replicated saved;
  for (const ReadOnce read_once : {ReadOnce::on, ReadOnce::off}) {
    for (const auto& [operation, first_call] :
         {std::pair{Operation::open_read, 0u}, {Operation::read, 0u}, {Operation::read, 1u}}) {
      for (int bad = 0; bad < world().size(); ++bad) {
        FaultyFileSystem files(posix_file_system());
        InjectedFault fault{};
        fault.operation = operation;
        fault.path_contains = ".distcp";
        fault.first_call = first_call;
        fault.error_number = EIO;
        if (world().rank() == bad) files.inject(fault);
        LoadTarget target(world().rank());
        Replicated::want_all(target);
        LoadOptions options;
        options.read_once = read_once;
        options.threads = 2;
        const auto body = [&] { load(world(), files, saved.path(), target.state(), options); };
        const Error error = same_failure(world(), body);
        EXPECT_EQ(error.kind(), ErrorKind::io);
        ASSERT_EQ(error.failures().size(), 1u) << error.what();
        EXPECT_EQ(error.failures()[0].rank, bad);
        EXPECT_EQ(target.state().object(302), Object("")) << "objects change last";
      }
    }
  }
}

// In whichever thread the bytes arrive: those of its own reading, and the one that receives.
TEST(Load, AFailingDeviceOrALackOfMemoryIsEverybodys) {
  const Replicated saved;
  const std::pair<const char*, std::function<void()>> failures[] = {
      {"the device is gone", [] { throw Error(ErrorKind::io, "the device is gone"); }},
      {"out of memory", [] { throw std::bad_alloc(); }}};
  for (const ReadOnce read_once : {ReadOnce::on, ReadOnce::off}) {
    for (const auto& [words, fail] : failures) {
      for (int bad = 0; bad < world().size(); ++bad) {
        LoadTarget target(world().rank());
        Replicated::want_all(target, MemoryKind::device);
        std::atomic<int> copies{0};
        if (world().rank() == bad)
          target.device().before_copy_in([&copies, &fail = fail] { return ++copies > 3 ? fail() : void(); });
        LoadOptions options;
        options.read_once = read_once;
        options.threads = 2;
        const auto run = [&] { load(world(), posix_file_system(), saved.path(), target.state(), options); };
        const Error error = same_failure(world(), run);
        EXPECT_EQ(error.kind(), ErrorKind::io);
        ASSERT_FALSE(error.failures().empty());
        EXPECT_EQ(error.failures()[0].rank, bad) << error.what();
        EXPECT_TRUE(contains(error, words)) << error.what();
        EXPECT_TRUE(contains(error, "a part of the new values")) << error.what();
        EXPECT_EQ(target.state().object(302), Object("")) << "objects change last";
        if (bad > 0) continue;  // the rest takes its time
        target.device().before_copy_in({});
        run();
        target.expect_iota();
      }
    }
  }
}

TEST(Load, AFailureToReadTheMetadataIsEverybodys) {
  const Replicated saved;
  for (const Operation operation :
       {Operation::open_read, Operation::read, Operation::status, Operation::list, Operation::resolve}) {
    FaultyFileSystem files(posix_file_system());
    InjectedFault fault{};
    fault.operation = operation;
    fault.error_number = EIO;
    files.inject(fault);
    LoadTarget target(world().rank());
    Replicated::want_all(target);
    same_failure(world(), [&] { load(world(), files, saved.path(), target.state()); });
    target.expect_untouched();
  }
}

TEST(Load, AFlippedBitIsNamedOnAllRanks) {
  const Replicated saved;
  saved.flip_a_bit("ckpt/__1_0.distcp");
  for (const ReadOnce read_once : {ReadOnce::on, ReadOnce::off}) {
    LoadTarget target(world().rank());
    Replicated::want_all(target);
    LoadOptions options;
    options.read_once = read_once;
    const Error error = same_failure(
        world(), [&] { load(world(), posix_file_system(), saved.path(), target.state(), options); });
    EXPECT_EQ(error.kind(), ErrorKind::corrupt);
    for (const char* part : {"__1_0.distcp", "at byte", "CRC-32", "chunk"})
      EXPECT_TRUE(contains(error, part)) << error.what();
  }
}

TEST(Load, ADamagedObjectIsNamedWithItsPlace) {
  const SharedDirectory saved([](const TempDir& dir) {
    DcpFixture fixture;
    fixture.add_object("note", "hello");
    fixture.write(dir, "ckpt");
    std::string bytes = dir.read("ckpt/__0_0.distcp");
    bytes.at(bytes.find("hello")) ^= 1;
    dir.write("ckpt/__0_0.distcp", bytes);
  });
  LiveState state(world().rank());
  state.add_object("note", "");
  const Error error =
      same_failure(world(), [&] { load(world(), posix_file_system(), saved.path() + "/ckpt", state); });
  EXPECT_EQ(error.kind(), ErrorKind::corrupt);
  EXPECT_TRUE(contains(error, "'note' in __0_0.distcp at byte 0")) << error.what();
  EXPECT_EQ(state.object(0), Object(""));
}

// Each rank has a part of the one item; together they have read it.
TEST(Load, RanksCompareTogetherWhatEachHasAPartOf) {
  const SharedDirectory saved([](const TempDir& dir) {
    DcpFixture fixture;
    fixture.add({"w", DType::int32, {kRows, kColumns}, split({kRows, kColumns}, 0, 1)});
    fixture.write(dir, "ckpt");
  });
  for (const bool damaged : {false, true}) {
    if (damaged && saved.mine() != nullptr) {
      std::string bytes = saved.mine()->read("ckpt/__0_0.distcp");
      bytes.at(bytes.size() - 4000) ^= 1;
      saved.mine()->write("ckpt/__0_0.distcp", bytes);
    }
    barrier(world());
    LoadTarget target(world().rank());
    target.add("w", DType::int32, TensorLayout::sharded({kRows, kColumns}, 0, world().size()));
    const auto run = [&] {
      return load(world(), posix_file_system(), saved.path() + "/ckpt", target.state());
    };
    if (damaged) {
      EXPECT_EQ(same_failure(world(), run).kind(), ErrorKind::corrupt);
    } else {
      EXPECT_EQ(run().verified_bytes, static_cast<std::uint64_t>(kRows * kColumns * 4));
      target.expect_iota();
    }
  }
}

TEST(Load, WhatDoesNotFitOneRankIsToldOnAll) {
  const Replicated saved;
  const int bad = world().size() - 1;
  LoadTarget target(world().rank());
  Replicated::want_all(target);
  if (world().rank() == bad) target.add("mine.alone", DType::float32, {3}, {{{0}, {3}}});
  const Error error =
      same_failure(world(), [&] { load(world(), posix_file_system(), saved.path(), target.state()); });
  EXPECT_EQ(error.kind(), ErrorKind::mismatch);
  EXPECT_TRUE(contains(error, "'mine.alone'")) << error.what();
  target.expect_untouched();
}

TEST(Load, OptionsAreTheSameOnAllRanks) {
  if (world().size() == 1) return;
  const Replicated saved;
  LoadTarget target(world().rank());
  Replicated::want_all(target);
  LoadOptions options;
  options.verify = world().rank() != 1;
  const Error error = same_failure(
      world(), [&] { load(world(), posix_file_system(), saved.path(), target.state(), options); });
  EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
}

// Network file systems show new files late.
TEST(Load, ShardsThatAppearLateAreWaitedFor) {
  if (world().size() == 1) return;
  const Replicated saved;
  for (const Operation operation : {Operation::open_read, Operation::status}) {
    FaultyFileSystem files(posix_file_system());
    InjectedFault fault{};
    fault.operation = operation;
    fault.path_contains = "__2_0.distcp";
    fault.call_count = 4;
    fault.error_number = ENOENT;
    files.inject(fault);
    LoadTarget target(world().rank());
    Replicated::want_all(target);
    load(world(), files, saved.path(), target.state());
    target.expect_iota();
  }
}

/// Ranks whose messages lack memory every other time.
class ShortOfMemory final : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;

  std::unique_ptr<Request> start_send(std::span<const std::byte> bytes, int to, int tag) override {
    if (messages_++ % 2 == 0) throw std::bad_alloc();
    return inner_->start_send(bytes, to, tag);
  }
  std::unique_ptr<Request> start_receive(std::span<std::byte> into, int from, int tag) override {
    if (messages_++ % 2 == 0) throw std::bad_alloc();
    return inner_->start_receive(into, from, tag);
  }
  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<ShortOfMemory>(inner_->duplicate());
  }

 private:
  std::uint64_t messages_ = 0;
};

TEST(Load, AMessageThatCannotBeStartedIsStartedLater) {
  const Replicated saved;
  for (const MemoryKind kind : {MemoryKind::contiguous, MemoryKind::device}) {
    ShortOfMemory comm(world().duplicate());
    LoadTarget target(comm.rank());
    Replicated::want_all(target, kind);
    LoadOptions options;
    options.read_once = ReadOnce::on;
    load(comm, posix_file_system(), saved.path(), target.state(), options);
    target.expect_iota();
  }
}

// --- torch files

TEST(Load, ATorchFileHasAllItsObjects) {
  const SharedDirectory saved([](const TempDir& dir) {
    DcpFixture fixture;
    fixture.add({"w", DType::int32, {30, 7}, split({30, 7}, 0, 3)});
    for (int i = 0; i < 6; ++i) fixture.add_object("o" + std::to_string(i), "o" + std::to_string(i));
    fixture.write(dir, "ckpt");
    ConsolidateOptions options;
    options.source = dir.path() + "/ckpt";
    options.destination = dir.path() + "/all.pth";
    consolidate(*solo_communicator(), posix_file_system(), options);
  });
  LoadTarget target(world().rank());
  target.add("w", DType::int32, TensorLayout::sharded({30, 7}, 1, world().size()));
  add_objects(target.state());
  load(world(), posix_file_system(), saved.path() + "/all.pth", target.state());
  target.expect_iota();
  expect_objects(target.state());
  EXPECT_EQ(load_all(world(), posix_file_system(), saved.path() + "/all.pth").objects.size(), 6u);
}

// --- everything

TEST(LoadAll, IsTheSameOnAllRanks) {
  const Replicated saved;
  const LoadedState all = load_all(world(), posix_file_system(), saved.path(), {"a", "s1*", "note"});
  ASSERT_EQ(all.tensors.size(), 112u);
  for (const LoadedTensor& tensor : all.tensors) {
    EXPECT_TRUE(tensor.bytes ==
                iota_bytes(tensor.shape, Box{Shape(tensor.shape.size(), 0), tensor.shape}, tensor.dtype));
  }
  ASSERT_EQ(all.objects.size(), 1u);
  EXPECT_EQ(all.objects[0].second, Object("hello"));
}

}  // namespace
}  // namespace cairn
