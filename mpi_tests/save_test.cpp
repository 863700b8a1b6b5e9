// SPDX-License-Identifier: BSD-3-Clause
// Saves on all ranks: what arrives, what a failure on any rank leaves.
#include "cairn/save.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <optional>

#include "cairn/checkpoint.hpp"
#include "cairn/load.hpp"
#include "expect_whole.hpp"
#include "failure_of.hpp"
#include "formats/dcp/directory_output.hpp"
#include "iota_state.hpp"
#include "load_fixture.hpp"
#include "shared_directory.hpp"
#include "storage/fault.hpp"
#include "world.hpp"

namespace cairn {
namespace {

void nothing(const TempDir&) {}

void fill(IotaState& state, Communicator& comm, std::uint64_t seed) {
  const int ranks = comm.size();
  state.add("rows", DType::float32, TensorLayout::sharded({40, 7}, 0, ranks), seed);
  state.add("large", DType::float64, TensorLayout::sharded({ranks, 200'000}, 0, ranks), seed + 1);
  state.add("whole", DType::int16, TensorLayout::replicated({5, 5}, ranks), seed + 2);
  state.live.add_object("step", static_cast<std::int64_t>(seed));
  state.live.add_rank_object("loader", comm.rank());
}

// What is in a directory, by name; rank 0 looks when all ranks have left what they did before, and all learn
// it.
std::string content(const std::string& directory) {
  barrier(world());
  Bytes text;
  if (world().rank() == 0 && std::filesystem::exists(directory)) {
    std::map<std::string, std::uintmax_t> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory))
      names[entry.path().filename()] = entry.file_size();
    std::string words;
    for (const auto& [name, size] : names) words += name + ":" + std::to_string(size) + " ";
    text.assign(as_bytes(words).begin(), as_bytes(words).end());
  }
  world().broadcast(text, 0);
  return std::string(as_text(text));
}

TEST(Save, IsWholeAndReportsWhatItWrote) {
  const SharedDirectory dir(nothing);
  IotaState state(world().rank());
  fill(state, world(), 3);
  const SaveReport report = save(world(), posix_file_system(), state.live, dir.path() + "/new/c");
  EXPECT_EQ(report.tensors, 3u);
  EXPECT_EQ(report.objects, 1u + static_cast<unsigned>(world().size()));
  EXPECT_EQ(report.files, static_cast<unsigned>(world().size()));
  EXPECT_TRUE(report.planned);
  EXPECT_GT(report.written_bytes, 200'000u * 8 * static_cast<unsigned>(world().size()));
  expect_whole(dir.path() + "/new/c");
}

TEST(Save, ASecondSaveOfTheSameShapeUsesThePlan) {
  const SharedDirectory dir(nothing);
  Saver saver(world(), posix_file_system());
  SaveOptions options;
  options.sync = false;
  for (std::uint64_t step = 0; step < 3; ++step) {
    IotaState state(world().rank());
    fill(state, world(), step);
    EXPECT_EQ(saver.save(state.live, dir.path() + "/" + std::to_string(step), options).planned, step == 0);
    expect_whole(dir.path() + "/" + std::to_string(step));
  }
  IotaState other(world().rank());
  fill(other, world(), 9);
  other.live.add_object("more", 1);
  EXPECT_TRUE(saver.save(other.live, dir.path() + "/other", options).planned);
}

TEST(Save, StatesWithoutAnythingAreNormal) {
  const SharedDirectory dir(nothing);
  const LiveState none(world().rank());
  EXPECT_EQ(save(world(), posix_file_system(), none, dir.path() + "/none").tensors, 0u);
  LiveState objects(world().rank());
  if (world().rank() == world().size() - 1) objects.add_object("only", "mine");
  EXPECT_EQ(save(world(), posix_file_system(), objects, dir.path() + "/objects").objects, 1u);
  expect_whole(dir.path() + "/none");
  expect_whole(dir.path() + "/objects");
}

TEST(Save, WorksOnAPartOfTheJob) {
  const SharedDirectory dir(nothing);
  const int color = world().rank() % 2;
  const auto half = world().split(color, world().rank());
  IotaState state(half->rank());
  fill(state, *half, static_cast<std::uint64_t>(color));
  save(*half, posix_file_system(), state.live, dir.path() + "/" + std::to_string(color));
  barrier(world());
  expect_whole(dir.path() + "/0");
}

// Each rank writes some of the columns: memory without gaps, of which a part has some.
TEST(Save, ALargeReplicaOnDevicesIsWrittenInParts) {
  const SharedDirectory dir(nothing);
  const Shape shape{5, 30'000};
  const Box whole{{0, 0}, shape};
  const Bytes iota = iota_bytes(shape, whole, DType::float32);
  PlayedDevice device;
  TensorView view = TensorView::contiguous(DType::float32, shape, device.allocate(iota.size()));
  view.device = &device;
  device.copy_in(iota, view.data);
  LiveState state(world().rank());
  state.add_tensor("w", TensorLayout::replicated(shape, world().size()), view);
  SaveOptions options;
  options.sync = false;
  options.plan.split_bytes = iota.size() / 4;
  save(world(), posix_file_system(), state, dir.path() + "/ckpt", options);
  LoadTarget target(world().rank());
  target.add("w", DType::float32, shape, {whole});
  load(world(), posix_file_system(), dir.path() + "/ckpt", target.state());
  target.expect_iota();
}

TEST(Save, RanksThatDisagreeAreTold) {
  const SharedDirectory dir(nothing);
  const bool is_last = world().rank() == world().size() - 1;
  IotaState state(world().rank());
  const auto shape = is_last ? TensorLayout::Shape{4, 5} : TensorLayout::Shape{4, 4};
  state.add("w", DType::float32, TensorLayout::replicated(shape, world().size()), 0);
  if (world().size() == 1) return;
  const Error error = failure_of([&] { save(world(), posix_file_system(), state.live, dir.path() + "/c"); });
  EXPECT_EQ(error.kind(), ErrorKind::mismatch);
  EXPECT_TRUE(contains(error, "'w'")) << error.what();
  SaveOptions options;
  options.overwrite = is_last;
  EXPECT_EQ(failure_of([&] {
              save(world(), posix_file_system(), LiveState(world().rank()), dir.path() + "/c", options);
            }).kind(),
            ErrorKind::invalid_argument);
  EXPECT_EQ(content(dir.path() + "/c"), "");
}

TEST(Save, ACapWithoutRoomForABufferIsEverybodysError) {
  const SharedDirectory dir(nothing);
  SaveOptions options;
  if (world().rank() == 0) options.max_memory = 1000;
  const Error error = failure_of(
      [&] { save(world(), posix_file_system(), LiveState(world().rank()), dir.path() + "/c", options); });
  EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
  EXPECT_TRUE(contains(error, "1000 bytes is too small")) << error.what();
  EXPECT_EQ(content(dir.path()), "");
}

TEST(Save, AUrlIsNoDirectory) {
  const LiveState state(world().rank());
  for (const char* url : {"s3://bucket/c", "file:///tmp/c"}) {
    const Error error = failure_of([&] { save(world(), posix_file_system(), state, url); });
    EXPECT_EQ(error.kind(), ErrorKind::unsupported) << error.what();
  }
  EXPECT_FALSE(posix_file_system().status("s3:"));
}

TEST(Save, ReplicasThatDifferAreFoundWhateverTheyAre) {
  if (world().size() == 1) return;
  const SharedDirectory dir(nothing);
  const bool is_last = world().rank() == world().size() - 1;
  SaveOptions options;
  options.check_replicas = true;
  float values[3] = {1, std::numeric_limits<float>::quiet_NaN(), 3};
  const auto attempt = [&](const char* name) {
    LiveState state(world().rank());
    state.add_tensor("same", TensorLayout::replicated({3}, world().size()),
                     TensorView::contiguous(DType::float32, {3}, values));
    state.add_object("object", is_last && std::string_view(name) == "objects" ? 2 : 1);
    save(world(), posix_file_system(), state, dir.path() + "/" + name, options);
  };
  attempt("equal");  // NaN equals itself
  expect_whole(dir.path() + "/equal");
  EXPECT_TRUE(contains(failure_of([&] { attempt("objects"); }), "'object': ranks 0 and "));
  if (is_last) values[2] = 4;
  const Error error = failure_of([&] { attempt("tensors"); });
  EXPECT_EQ(error.kind(), ErrorKind::mismatch);
  EXPECT_TRUE(contains(error, "'same' [0:3]: ranks 0 and ")) << error.what();
  EXPECT_EQ(content(dir.path() + "/tensors") + content(dir.path() + "/objects"), "");
}

TEST(Save, OfManyDifferentReplicasTheRestIsCounted) {
  if (world().size() == 1) return;
  const SharedDirectory dir(nothing);
  SaveOptions options;
  options.check_replicas = true;
  LiveState state(world().rank());
  for (int i = 0; i < 25; ++i) state.add_object("o" + std::to_string(i), world().rank());
  const Error error =
      failure_of([&] { save(world(), posix_file_system(), state, dir.path() + "/c", options); });
  EXPECT_EQ(error.kind(), ErrorKind::mismatch);
  EXPECT_TRUE(contains(error, "25 differ in all")) << error.what();
}

// --- failures: each step, each rank ---------------------------------------------------------------------

struct Failing {
  Operation operation;
  const char* path;
};
const Failing kSteps[] = {
    {Operation::create, ".distcp"},      {Operation::allocate, ".distcp"},
    {Operation::write, ".distcp"},       {Operation::sync, ".distcp"},
    {Operation::close, ".distcp"},       {Operation::create, "metadata"},
    {Operation::open_write, "metadata"}, {Operation::write, "metadata"},
    {Operation::sync, "metadata"},       {Operation::rename, "metadata"},
    {Operation::create, "manifest"},     {Operation::write, "manifest"},
    {Operation::rename, "manifest"},     {Operation::list, ""},
    {Operation::sync_directory, ""},
};

// False: the step passed, because this rank does not come there.
bool save_failing(const Failing& step, int failing_rank, const LiveState& state, const std::string& directory,
                  bool overwrite) {
  FaultyFileSystem files(posix_file_system());
  if (world().rank() == failing_rank)
    files.inject({.operation = step.operation, .path_contains = step.path, .error_number = EIO});
  SaveOptions options;
  options.overwrite = overwrite;
  std::optional<Error> error;
  try {
    save(world(), files, state, directory, options);
  } catch (const Error& thrown) {
    error = thrown;
  }
  const std::uint64_t failed = agree(world(), error ? 1 : 2);
  EXPECT_NE(failed, 3u) << "ranks left differently";
  EXPECT_TRUE(error || failing_rank > 0) << static_cast<int>(step.operation) << " " << step.path;
  if (!error) return false;
  EXPECT_EQ(error->kind(), ErrorKind::io) << error->what();
  const auto whose = error->failures();
  EXPECT_TRUE(!whose.empty() && whose[0].rank == failing_rank) << error->what();
  return true;
}

TEST(SaveFailures, LeaveNothingOfANewCheckpoint) {
  const SharedDirectory dir(nothing);
  IotaState state(world().rank());
  fill(state, world(), 1);
  int count = 0;
  for (const Failing& step : kSteps) {
    for (int rank = 0; rank < world().size(); ++rank) {
      const std::string directory = dir.path() + "/" + std::to_string(count++);
      if (!save_failing(step, rank, state.live, directory, false)) continue;
      if (step.operation == Operation::sync_directory) continue;  // below
      const std::string left = content(directory);
      EXPECT_EQ(left, "") << "step " << static_cast<int>(step.operation) << " " << step.path << " rank "
                          << rank;
    }
  }
}

TEST(SaveFailures, KeepTheCheckpointThatWasThere) {
  const SharedDirectory dir(nothing);
  IotaState state(world().rank());
  fill(state, world(), 1);
  int count = 0;
  for (const Failing& step : kSteps) {
    for (int rank = 0; rank < world().size(); ++rank) {
      if (step.operation == Operation::sync_directory) continue;  // below
      const std::string directory = dir.path() + "/" + std::to_string(count++);
      SaveOptions unsynced;
      unsynced.sync = false;
      save(world(), posix_file_system(), state.live, directory, unsynced);
      const std::string before = content(directory);
      if (!save_failing(step, rank, state.live, directory, true)) continue;
      EXPECT_EQ(content(directory), before) << static_cast<int>(step.operation) << " " << step.path;
      expect_whole(directory);
    }
  }
}

TEST(SaveFailures, ADirectoryThatIsSeenLateIsWaitedFor) {
  const SharedDirectory dir(nothing);
  IotaState state(world().rank());
  fill(state, world(), 1);
  const int late = world().size() - 1;
  SaveOptions options;
  for (const bool is_seen : {true, false}) {
    FaultyFileSystem files(posix_file_system());
    InjectedFault unseen{.operation = Operation::create, .path_contains = ".distcp", .error_number = ENOENT};
    if (is_seen) unseen.call_count = 5;
    if (world().rank() == late) files.inject(unseen);
    const std::string directory = dir.path() + (is_seen ? "/seen" : "/never");
    if (is_seen) {
      save(world(), files, state.live, directory, options);
      expect_whole(directory);
      if (world().rank() == late) {
        EXPECT_GE(files.count(Operation::create).calls, 6u);
      }
      continue;
    }
    options.visibility_timeout_s = 0.05;
    const Error error = failure_of([&] { save(world(), files, state.live, directory, options); });
    EXPECT_EQ(error.kind(), ErrorKind::not_found) << error.what();
    EXPECT_EQ(error.failures()[0].rank, late);
    EXPECT_TRUE(contains(error, "all ranks see")) << error.what();
    EXPECT_EQ(content(directory), "");
  }
}

TEST(SaveFailures, AfterTheRenamingTheNewCheckpointStays) {
  const SharedDirectory dir(nothing);
  IotaState state(world().rank());
  fill(state, world(), 1);
  // calls on the directory: of its shards' names, then, when both are renamed, of their names
  for (std::uint64_t call = 0; call < 4; ++call) {
    const std::string directory = dir.path() + "/" + std::to_string(call);
    FaultyFileSystem files(posix_file_system());
    if (world().rank() == 0) {
      files.inject({.operation = Operation::sync_directory,
                    .path_contains = directory,
                    .first_call = call,
                    .error_number = EIO});
    }
    bool failed = false;
    try {
      save(world(), files, state.live, directory);
    } catch (const Error&) {
      failed = true;
    }
    if (failed && call == 0) {
      EXPECT_EQ(content(directory), "");
    }
    if (!failed || call > 0) expect_whole(directory);
  }
}

TEST(SaveFailures, ASecondSaverIsRefused) {
  const SharedDirectory dir(nothing);
  const std::string directory = dir.path() + "/c";
  IotaState state(world().rank());
  fill(state, world(), 1);
  std::optional<dcp::DirectoryOutput> first;
  if (world().rank() == 0)
    first.emplace(dcp::DirectoryOutput::create(posix_file_system(), directory, false, {}));
  const Error error = failure_of([&] { save(world(), posix_file_system(), state.live, directory); });
  EXPECT_EQ(error.kind(), ErrorKind::already_exists);
  EXPECT_TRUE(contains(error, "another run is writing")) << error.what();
  first.reset();
  barrier(world());
  save(world(), posix_file_system(), state.live, directory);  // the owner is gone, and so is its lock
  expect_whole(directory);
}

}  // namespace
}  // namespace cairn
