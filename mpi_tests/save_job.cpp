// SPDX-License-Identifier: BSD-3-Clause
// A job that saves a state which real torch then reads (tests/interop/run_save.py).
//   save_job DIRECTORY [WORD …]    words: overwrite, twice, strided, split, files, lowest, nomanifest, check,
//   differ, async, meta (meta.pt too), live, live_shared (DIRECTORY.pth too, of the same state)
//   save_job DIRECTORY large    two tensors beyond 31 and 32 bits (tests/interop/run_extremes.py)
#include <sys/mman.h>

#include <cstdio>
#include <set>
#include <string>

#include "cairn/async_save.hpp"
#include "cairn/consolidate_live.hpp"
#include "cairn/mpi.hpp"
#include "cairn/save.hpp"
#include "iota_state.hpp"

namespace cairn {
namespace {

Object::Dict dict(std::vector<std::pair<Object, Object>> items) { return {std::move(items)}; }

// Every layout, every dtype; run_save.py knows the same list.
void fill(IotaState& state, int ranks, Order order) {
  std::uint64_t seed = 0;
  const auto add = [&](const std::string& name, DType dtype, const TensorLayout& layout) {
    state.add(name, dtype, layout, seed++, true, order);
  };
  add("rows", DType::float32, TensorLayout::sharded({37, 11}, 0, ranks));
  add("columns", DType::bfloat16, TensorLayout::sharded({9, 50}, 1, ranks));
  add("replicated", DType::float64, TensorLayout::replicated({13, 7}, ranks));
  add("large_replicated", DType::uint8, TensorLayout::replicated({700'000, 3}, ranks));
  add("large_rows", DType::int32, TensorLayout::sharded({3'000, 1'001}, 0, ranks));
  add("few_rows", DType::int16, TensorLayout::sharded({2, 5}, 0, ranks));
  add("scalar", DType::int64, TensorLayout::replicated({}, ranks));
  add("empty", DType::float16, TensorLayout::replicated({0, 4}, ranks));
  if (ranks % 2 == 0) {
    add("grid", DType::complex64,
        TensorLayout::on_mesh({6, 10}, Mesh({2, ranks / 2}), {Placement::shard(0), Placement::shard(1)}));
    add("hybrid", DType::float32,
        TensorLayout::on_mesh({16, 3}, Mesh({2, ranks / 2}), {Placement::replicate(), Placement::shard(0)}));
  }
  for (int code = 0; code <= static_cast<int>(DType::bits16); ++code) {
    const auto dtype = static_cast<DType>(code);
    add("dtype." + std::string(info(dtype).name), dtype, TensorLayout::sharded({7, 6}, 0, ranks));
  }
  state.live.add_object("step", 25);
  state.live.add_object("lr", 0.1);
  state.live.add_object("name", "grün \n");
  state.live.add_object("nothing", Object());
  state.live.add_object("yes", true);
  state.live.add_object("blob", Object::Data{{std::byte{0}, std::byte{255}, std::byte{10}}});
  state.live.add_object("nested",
                        dict({{"betas", Object::Tuple{{0.9, 0.999}}}, {2, Object::List{1, Object(), "x"}}}));
  state.live.add_rank_object("loader", dict({{"rank", state.live.description().rank()}}));
  LiveNode::List groups;
  groups.emplace_back(Object(Object::Dict{{{"lr", 0.5}, {"params", Object::List{0, 1}}}}));
  state.live.add_tree({{"optim", LiveNode::Dict{{"groups", std::move(groups)}, {"step", Object(3)}}}});
}

// Memory of zeros that takes none but for the pages that are written.
std::byte* zeros(std::uint64_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(at);
}

// make_extremes.py has the same numbers.
void fill_large(LiveState& state, int ranks) {
  constexpr std::int64_t gib2 = std::int64_t{1} << 31, gib4 = std::int64_t{1} << 32, large = gib4 + 5;
  constexpr std::int64_t marks[] = {0, gib2 - 2, gib2 - 1, gib2, gib2 + 1, gib4 - 1, gib4, gib4 + 4};
  const int rank = state.description().rank();
  const auto rows = TensorLayout::sharded({large}, 0, ranks);
  const auto here = rows.boxes(rank).empty() ? Box{{0}, {0}} : rows.boxes(rank).front();
  std::byte* memory = zeros(static_cast<std::uint64_t>(here.sizes[0]) + 1);
  for (std::size_t i = 0; i < std::size(marks); ++i) {
    const std::int64_t at = marks[i] - here.offsets[0];
    if (at >= 0 && at < here.sizes[0]) memory[at] = static_cast<std::byte>(1 + i);
  }
  state.add_tensor("large", rows, TensorView::contiguous(DType::uint8, here.sizes, memory));
  memory = zeros(gib2);
  memory[gib2 - 1] = std::byte{7};
  state.add_tensor("exact", TensorLayout::replicated({gib2}, ranks),
                   TensorView::contiguous(DType::uint8, {gib2}, memory));
}

// Half of it copied, half written before the call returns.
SaveReport save_async(Communicator& comm, const IotaState& state, const std::string& directory,
                      const SaveOptions& options) {
  AsyncSaver saver(comm, posix_file_system(), {.staging_bytes = 4 << 20});
  return saver.save(state.live, directory, options).wait();
}

int run(Communicator& comm, const std::string& directory, const std::set<std::string>& words) {
  const auto has = [&](const char* word) { return words.contains(word); };
  IotaState state(comm.rank());
  if (has("large")) {
    fill_large(state.live, comm.size());
  } else {
    fill(state, comm.size(), has("strided") ? Order::reversed_dims : Order::row_major);
  }
  if (has("differ") && comm.rank() == comm.size() - 1) state.live.set_object(state.live.size() - 1, 4);
  SaveOptions options;
  options.overwrite = has("overwrite");
  options.manifest = !has("nomanifest");
  options.check_replicas = has("check") || has("differ");
  options.sync = false;
  if (has("meta")) options.companion = {"meta.pt", dict({{"epoch", 3}, {"names", Object::List{"a", 0.5}}})};
  if (has("split")) options.plan.split_bytes = 100'000;
  if (has("files")) options.plan.files_per_rank = 3;
  if (has("lowest")) options.plan.replicas = ReplicaRule::lowest_rank;
  Saver saver(comm, posix_file_system());
  SaveReport report =
      has("async") ? save_async(comm, state, directory, options) : saver.save(state.live, directory, options);
  if (has("twice")) {
    options.overwrite = true;
    report = saver.save(state.live, directory, options);
    if (report.planned) throw std::runtime_error("an unchanged state was planned again");
  }
  if (has("live") || has("live_shared")) {
    ConsolidateOptions file;
    file.sync = false;
    file.overwrite = has("overwrite");
    file.write = has("live_shared") ? WriteMode::shared : WriteMode::automatic;
    consolidate(comm, posix_file_system(), state.live, directory + ".pth", file);
  }
  if (comm.rank() == 0) {
    std::printf("tensors %lu objects %lu files %lu bytes %lu\n", report.tensors, report.objects, report.files,
                report.written_bytes);
    for (const std::string& warning : report.warnings) std::printf("warning %s\n", warning.c_str());
  }
  return 0;
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  cairn::MpiSession session(argc, argv);
  const auto comm = session.world();
  try {
    return cairn::run(*comm, argv[1], {argv + 2, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", comm->rank(), error.what());
    return 1;
  }
}
