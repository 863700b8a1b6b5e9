// SPDX-License-Identifier: BSD-3-Clause
// Plans of large jobs in one process: what the coordinator of a save and a rank of a load do, but for
// waiting.
//   plan_rate FILE ROUNDS [SHAPE...]
// FILE is where `.metadata` goes; it is removed afterwards. Prints, for each shape, one JSON line: the least
// seconds of the rounds, by the wall and of the processor (other work on the machine slows the first), and
// the largest memory of the process so far (name one shape to have it for that one).
//   tall, wide     1 024 tensors on 1 024 ranks, cut by rows: 2^20 items; rows of 64 and of 262 144 elements
//   columns, grid  likewise, cut by columns, and by both on a mesh of 32 x 32
//   tensors        2^20 tensors, 1 024 on each rank
//   again          100 000 tensors on 4 ranks: planned, and found again
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cairn/plan.hpp"
#include "cairn/storage.hpp"
#include "checkpoint/process_memory.hpp"
#include "checkpoint/save_parts.hpp"
#include "formats/dcp/metadata_decoder.hpp"
#include "formats/dcp/metadata_encoder.hpp"

namespace cairn {
namespace {

constexpr int kSavingRanks = 1024, kLoadingRanks = 512;
constexpr std::size_t kTensors = 1024;

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// The least seconds of each step, over the rounds: by the wall, and of the processor.
class Clocks {
 public:
  template <class Work>
  auto timed(const std::string& step, Work&& work) {
    const double wall = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    auto result = work();
    lower(step + "_s", seconds_of(CLOCK_MONOTONIC) - wall);
    lower(step + "_cpu_s", seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu);
    return result;
  }
  void print(const std::string& shape) const {
    std::printf("{\"shape\": \"%s\"", shape.c_str());
    for (const auto& [step, seconds] : least_) std::printf(", \"%s\": %.4f", step.c_str(), seconds);
    std::printf(", \"peak_rss_mib\": %.0f}\n", static_cast<double>(peak_rss_bytes()) / (1 << 20));
    std::fflush(stdout);
  }

 private:
  void lower(const std::string& figure, double seconds) {
    const auto [at, is_new] = least_.try_emplace(figure, seconds);
    at->second = std::min(at->second, seconds);
  }

  std::map<std::string, double> least_;
};

/// A job: on which tensors and boxes it has on a rank of `ranks`.
using StateOf = RankState (*)(int rank, int ranks);

std::string tensor_name(std::size_t i) { return "model.layers." + std::to_string(i) + ".attention.weight"; }

void add(RankState& state, std::size_t i, const TensorLayout& layout) {
  const std::string name = tensor_name(i);
  const std::vector<NameCut> cuts{{5}, {static_cast<std::uint32_t>(name.size() - 6)}};
  state.add_tensor(name, DType::bfloat16, layout, cuts);
}

RankState of_layout(int rank, const TensorLayout& layout) {
  RankState state(rank);
  for (std::size_t i = 0; i < kTensors; ++i) add(state, i, layout);
  return state;
}

RankState tall(int rank, int ranks) { return of_layout(rank, TensorLayout::sharded({65536, 64}, 0, ranks)); }
RankState wide(int rank, int ranks) {
  return of_layout(rank, TensorLayout::sharded({1024, 262144}, 0, ranks));
}
RankState columns(int rank, int ranks) {
  return of_layout(rank, TensorLayout::sharded({4096, 8192}, 1, ranks));
}
RankState grid(int rank, int ranks) {
  return of_layout(rank, TensorLayout::on_mesh({4096, 4096}, Mesh({32, ranks / 32}),
                                               {Placement::shard(0), Placement::shard(1)}));
}
RankState tensors(int rank, int ranks) {
  RankState state(rank);
  const std::size_t each = kTensors * kSavingRanks / static_cast<std::size_t>(ranks);
  const auto layout = TensorLayout::replicated({64, 64}, ranks);
  for (std::size_t i = 0; i < each; ++i) add(state, static_cast<std::size_t>(rank) * each + i, layout);
  return state;
}

std::vector<std::vector<std::byte>> encoded(StateOf state_of) {
  std::vector<std::vector<std::byte>> out;
  for (int rank = 0; rank < kSavingRanks; ++rank) out.push_back(state_of(rank, kSavingRanks).encode());
  return out;
}

Catalog located(const GlobalSavePlan& plan) {
  std::vector<std::vector<ItemPlace>> places;
  for (const SavePlan& part : plan.parts) {
    std::uint64_t at = 0;
    auto& here = places.emplace_back();
    for (const WriteItem& item : part.items())
      here.push_back({std::exchange(at, at + item.bytes), item.bytes});
  }
  return plan.located(places, [](int rank, std::uint32_t file) {
    return "__" + std::to_string(rank) + "_" + std::to_string(file) + ".distcp";
  });
}

std::uint64_t write_metadata(const Catalog& catalog, const std::string& path) {
  const auto file = posix_file_system().create_exclusive(path);
  std::uint64_t at = 0;
  dcp::encode_metadata(catalog, {"checkpoint", "00000000-0000-4000-8000-000000000000"}, {},
                       [&](std::span<const std::byte> piece) {
                         file->write(at, piece);
                         at += piece.size();
                       });
  file->close();
  return at;
}

Catalog read_metadata(const std::string& path) {
  const auto file = posix_file_system().open_read(path);
  FaultList faults;
  Catalog catalog = dcp::decode_metadata(*file, path, faults).catalog;
  faults.throw_if_any(path);
  return catalog;
}

// One after the other lets go of what it used, as in a job: the plan has no use of what was sent.
Catalog save(StateOf state_of, Clocks& clocks) {
  auto sent = clocks.timed("propose_all", [&] { return encoded(state_of); });
  const auto states = clocks.timed("decode_all", [&] { return decode_states(std::exchange(sent, {})); });
  const GlobalSavePlan plan = clocks.timed("plan", [&] { return plan_save(states); });
  return clocks.timed("locate", [&] { return located(plan); });
}

void save_and_load(StateOf state_of, const std::string& path, Clocks& clocks) {
  {
    const Catalog catalog = save(state_of, clocks);
    clocks.timed("metadata_out", [&] { return write_metadata(catalog, path); });
  }
  const Catalog catalog = clocks.timed("metadata_in", [&] { return read_metadata(path); });
  ::unlink(path.c_str());
  const RankState wanted = state_of(kLoadingRanks / 3, kLoadingRanks);
  const LoadPlan load = clocks.timed("load_plan", [&] { return plan_load(catalog, wanted); });
  LoadPlanOptions options;
  options.allow_unexpected = {"*"};  // of `tensors` a rank wants a part
  judge_load(catalog, std::span(&load.findings(), 1), options).throw_if_any();
}

// The longest way of a plan through the ranks: each one's own steps count once.
void plan_again(Clocks& clocks) {
  std::vector<RankState> states;
  for (int rank = 0; rank < 4; ++rank) {
    RankState& state = states.emplace_back(rank);
    for (std::size_t i = 0; i < 100000; ++i) add(state, i, TensorLayout::sharded({512, 64}, 0, 4));
  }
  std::vector<std::vector<std::byte>> sent;
  for (const RankState& state : states) sent.push_back(state.encode());
  PlanCache<GlobalSavePlan> cache;
  const SavePlan mine = clocks.timed("first", [&] {
    sent[0] = clocks.timed("first.encode", [&] { return states[0].encode(); });
    const auto arrived = clocks.timed("first.decode", [&] { return decode_states(sent); });
    auto whole = std::make_shared<const GlobalSavePlan>(
        clocks.timed("first.plan", [&] { return plan_save(arrived); }));
    const auto parts = clocks.timed("first.parts", [&] {
      std::vector<std::vector<std::byte>> out;
      for (const SavePlan& part : whole->parts) out.push_back(part.encode());
      return out;
    });
    cache.store(std::move(whole));
    return clocks.timed("first.take_up", [&] { return SavePlan::decode(parts[0], states[0]); });
  });
  if (mine.items().size() != states[0].size()) std::abort();
  std::vector<Fingerprint> prints;
  for (const RankState& state : states) prints.push_back(state.fingerprint());
  const auto found = clocks.timed("cached", [&] {
    prints[0] = states[0].fingerprint();
    return cache.find(plan_id(prints, {}));
  });
  if (!found) std::abort();
}

void run(const std::string& shape, const std::string& path, int rounds) {
  const std::map<std::string, StateOf> jobs = {
      {"tall", tall}, {"wide", wide}, {"columns", columns}, {"grid", grid}, {"tensors", tensors}};
  Clocks clocks;
  for (int round = 0; round < rounds; ++round)
    shape == "again" ? plan_again(clocks) : save_and_load(jobs.at(shape), path, clocks);
  clocks.print(shape);
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  std::vector<std::string> shapes(argv + 3, argv + argc);
  if (shapes.empty()) shapes = {"again", "tall", "wide", "columns", "grid", "tensors"};
  for (const std::string& shape : shapes) cairn::run(shape, argv[1], std::atoi(argv[2]));
  return 0;
}
