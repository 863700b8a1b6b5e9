// SPDX-License-Identifier: BSD-3-Clause
// Large jobs in one process. Each case prints one JSON line with what it took, and asserts no time.
#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "plan_fixture.hpp"

namespace cairn {
namespace {

using Shape = std::vector<std::int64_t>;

// Sanitized code without optimization takes a hundred times as long: it gets a smaller job.
#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t kTensors = 1024 / 32, kReplans = 100000 / 32;
#else
constexpr std::size_t kTensors = 1024, kReplans = 100000;
#endif

class Stopwatch {
 public:
  /// Seconds since the last call.
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(now - std::exchange(start_, now)).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void print(const char* workload, std::initializer_list<std::pair<const char*, double>> values) {
  std::printf("{\"workload\": \"plan.%s\"", workload);
  for (const auto& [name, value] : values) std::printf(", \"%s\": %.4f", name, value);
  std::printf("}\n");
}

std::string tensor_name(std::size_t i) { return "model.layers." + std::to_string(i) + ".attention.weight"; }

/// `tensors` of one layout, as each of `ranks` has them.
std::vector<RankState> states_of(std::size_t tensors, const TensorLayout& layout, int ranks) {
  std::vector<RankState> states;
  for (int rank = 0; rank < ranks; ++rank) {
    RankState& state = states.emplace_back(rank);
    for (std::size_t i = 0; i < tensors; ++i) {
      const std::string name = tensor_name(i);
      const std::vector<NameCut> cuts{{5}, {static_cast<std::uint32_t>(name.size() - 6)}};
      state.add_tensor(name, DType::bfloat16, layout, cuts);
    }
  }
  return states;
}

Catalog located(const GlobalSavePlan& plan) {
  std::vector<std::vector<ItemPlace>> places;
  for (const SavePlan& part : plan.parts) {
    std::uint64_t at = 0;
    places.emplace_back();
    for (const WriteItem& item : part.items())
      places.back().push_back({std::exchange(at, at + item.bytes), item.bytes});
  }
  return plan.located(places, [](int rank, std::uint32_t) { return std::to_string(rank); });
}

std::vector<std::vector<std::byte>> sent_by(const std::vector<RankState>& states) {
  std::vector<std::vector<std::byte>> sent;
  for (const RankState& state : states) sent.push_back(state.encode());
  return sent;
}

/// As the coordinator has them, in whatever order.
std::vector<RankState> received(const std::vector<std::vector<std::byte>>& sent) {
  std::vector<RankState> states;
  for (const auto& one : sent) states.push_back(RankState::decode(one));
  std::mt19937 random(7);
  std::ranges::shuffle(states, random);
  return states;
}

std::size_t elements_of(BoxView box) { return static_cast<std::size_t>(element_count(box.sizes)); }

/// Counts the elements of `part` in `counts`, which are those of `whole`.
void count_in(BoxView part, BoxView whole, std::vector<std::uint8_t>& counts) {
  Box lines{{part.offsets.begin(), part.offsets.end()}, {part.sizes.begin(), part.sizes.end()}};
  for (std::size_t d = 0; d < lines.sizes.size(); ++d) lines.offsets[d] -= whole.offsets[d];
  const auto length = std::exchange(lines.sizes.back(), 1);
  for_each_element(lines, [&](const std::vector<std::int64_t>& at) {
    const auto first = counts.begin() + linear(whole.sizes, at);
    for (auto count = first; count != first + length; ++count) ++*count;
  });
}

bool all_once(const std::vector<std::uint8_t>& counts) {
  return std::ranges::count(counts, 1) == std::ssize(counts);
}

/// What all ranks write by their parts, which they get by the wire: as many elements as there are, and each
/// element of the first tensor once.
void expect_all_written(const GlobalSavePlan& plan, const std::vector<RankState>& states) {
  std::size_t written = 0, whole = 0;
  std::vector<std::uint8_t> counts(elements_of({states[0].shape(0), states[0].shape(0)}), 0);
  const std::vector<std::int64_t> origin(states[0].shape(0).size(), 0);
  for (std::size_t entry = 0; entry < states[0].size(); ++entry)
    if (states[0].is_tensor(entry)) whole += static_cast<std::size_t>(element_count(states[0].shape(entry)));
  for (std::size_t rank = 0; rank < states.size(); ++rank) {
    const RankState& state = states[rank];
    const SavePlan part = SavePlan::decode(plan.parts[rank].encode(), state);
    for (const WriteItem& item : part.items()) {
      if (!state.is_tensor(item.entry)) continue;
      written += elements_of(part.box(state, item));
      if (item.entry == 0) count_in(part.box(state, item), {origin, state.shape(0)}, counts);
    }
  }
  EXPECT_EQ(written, whole);
  EXPECT_TRUE(all_once(counts));
}

/// Each element of each wanted box is in one item.
void expect_all_read(const Catalog& catalog, const RankState& wanted, const LoadPlan& plan) {
  std::vector<std::vector<std::uint8_t>> counts(wanted.size());
  for (std::size_t entry = 0; entry < wanted.size(); ++entry) {
    ASSERT_EQ(wanted.box_count(entry), wanted.is_tensor(entry) ? 1u : 0u);
    if (wanted.is_tensor(entry)) counts[entry].assign(elements_of(wanted.box(entry, 0)), 0);
  }
  for (const ReadItem& item : plan.items())
    count_in(plan.overlap(catalog, item), wanted.box(item.entry, item.box), counts[item.entry]);
  EXPECT_TRUE(std::ranges::all_of(counts, all_once));
}

/// Names, boxes, and who writes what, in the same order.
void expect_same(const GlobalSavePlan& a, const GlobalSavePlan& b) {
  ASSERT_EQ(a.catalog.entries().size(), b.catalog.entries().size());
  for (std::size_t i = 0; i < a.catalog.entries().size(); ++i)
    EXPECT_EQ(a.catalog.name(a.catalog.entries()[i]), b.catalog.name(b.catalog.entries()[i]));
  for (std::size_t i = 0; i < a.catalog.tensors().size(); ++i) {
    const TensorInfo &one = a.catalog.tensors()[i], &other = b.catalog.tensors()[i];
    ASSERT_EQ(one.chunk_count, other.chunk_count);
    for (std::size_t c = 0; c < one.chunk_count; ++c)
      EXPECT_EQ(to_string(a.catalog.box(one, a.catalog.chunks(one)[c])),
                to_string(b.catalog.box(other, b.catalog.chunks(other)[c])));
  }
  const auto same = [](const PlannedItem& x, const PlannedItem& y) {
    return x.rank == y.rank && x.item == y.item;
  };
  EXPECT_TRUE(std::ranges::equal(a.chunks, b.chunks, same));
  EXPECT_TRUE(std::ranges::equal(a.objects, b.objects, same));
}

struct Shard {
  const char* name;
  std::size_t tensors;
  TensorLayout saved, loaded;  // by 1 024 and by 512 ranks
};

// 2^20 items over 1 024 ranks, in full.
void plan_and_load(const Shard& shard) {
  const auto states = states_of(shard.tensors, shard.saved, 1024);
  const auto arrived = received(sent_by(states));
  Stopwatch watch;
  const GlobalSavePlan plan = plan_save(arrived);
  const double plan_s = watch.lap();
  EXPECT_EQ(plan.catalog.entries().size(), shard.tensors);
  EXPECT_EQ(plan.catalog.chunks().size(), shard.tensors * 1024);
  expect_all_written(plan, states);
  const Catalog catalog = located(plan);
  RankState wanted(100);
  for (std::size_t i = 0; i < shard.tensors; ++i)
    wanted.add_tensor(tensor_name(i), DType::bfloat16, shard.loaded);
  watch.lap();
  const LoadPlan load = plan_load(catalog, wanted);
  const double load_s = watch.lap();
  judge_load(catalog, std::span(&load.findings(), 1)).throw_if_any();
  expect_all_read(catalog, wanted, load);
  print(shard.name, {{"items", static_cast<double>(plan.chunks.size())},
                     {"plan_s", plan_s},
                     {"load_plan_s", load_s},
                     {"reads", static_cast<double>(load.items().size())}});
}

TEST(PlanScale, Rows) {
  plan_and_load({"rows", kTensors, TensorLayout::sharded({8192, 4096}, 0, 1024),
                 TensorLayout::sharded({8192, 4096}, 0, 512)});
}

TEST(PlanScale, Columns) {
  plan_and_load({"columns", kTensors, TensorLayout::sharded({4096, 8192}, 1, 1024),
                 TensorLayout::sharded({4096, 8192}, 1, 512)});
}

TEST(PlanScale, Planes) {
  plan_and_load(
      {"planes", kTensors,
       TensorLayout::on_mesh({4096, 4096}, Mesh({32, 32}), {Placement::shard(0), Placement::shard(1)}),
       TensorLayout::on_mesh({4096, 4096}, Mesh({64, 8}), {Placement::shard(0), Placement::shard(1)})});
}

TEST(PlanScale, OneTensorOfManyBoxes) {
  constexpr std::int64_t rows = std::int64_t{kTensors} * 1024;
  std::vector<std::vector<Box>> boxes(1024);
  for (std::int64_t i = 0; i < rows; ++i)
    boxes[static_cast<std::size_t>(i % 1024)].push_back({{i, 0}, {1, 8}});
  const auto states = states_of(1, TensorLayout::listed({rows, 8}, boxes), 1024);
  Stopwatch watch;
  const GlobalSavePlan plan = plan_save(states);
  const double plan_s = watch.lap();
  EXPECT_EQ(plan.catalog.chunks().size(), static_cast<std::size_t>(rows));
  const Catalog catalog = located(plan);
  RankState few(3), many(3);
  few.add_tensor(tensor_name(0), DType::bfloat16, TensorLayout::sharded({rows, 8}, 0, 512));
  many.add_tensor(tensor_name(0), DType::bfloat16, TensorLayout::listed({rows, 8}, boxes));
  watch.lap();
  EXPECT_EQ(plan_load(catalog, few).items().size(), static_cast<std::size_t>(rows / 512));
  const double few_s = watch.lap();
  EXPECT_EQ(plan_load(catalog, many).items().size(), static_cast<std::size_t>(rows / 1024));
  print("one_tensor", {{"plan_s", plan_s}, {"load_one_box_s", few_s}, {"load_1024_boxes_s", watch.lap()}});
}

TEST(PlanScale, ManyTensors) {
  std::vector<RankState> states;
  for (int rank = 0; rank < 1024; ++rank) {
    RankState& state = states.emplace_back(rank);
    for (std::size_t i = 0; i < kTensors; ++i) {
      const std::string name = tensor_name(static_cast<std::size_t>(rank) * kTensors + i);
      const std::vector<NameCut> cuts{{5}, {static_cast<std::uint32_t>(name.size() - 6)}};
      state.add_tensor(name, DType::bfloat16, Shape{64, 64}, cuts);
      state.add_box(Box{{0, 0}, {64, 64}});
    }
  }
  Stopwatch watch;
  const GlobalSavePlan plan = plan_save(states);
  const double plan_s = watch.lap();
  EXPECT_EQ(plan.catalog.tensors().size(), kTensors * 1024);
  const Catalog catalog = located(plan);
  watch.lap();
  const LoadPlan load = plan_load(catalog, states[5]);
  print("tensors", {{"plan_s", plan_s}, {"load_plan_s", watch.lap()}});
  EXPECT_EQ(load.items().size(), kTensors);
}

TEST(PlanScale, SixteenThousandRanks) {
  constexpr int ranks = 16384;
  std::vector<RankState> states;
  const auto sharded =
      TensorLayout::on_mesh({16384, 64}, Mesh({64, 256}), {Placement::replicate(), Placement::shard(0)});
  const auto replicated = TensorLayout::replicated({512, 512}, ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    RankState& state = states.emplace_back(rank);
    for (int i = 0; i < 8; ++i)
      state.add_tensor("w" + std::to_string(i), DType::float32, i % 2 == 0 ? sharded : replicated);
    state.add_object("step", 8);
  }
  const SavePlanOptions options{ReplicaRule::balanced, 16384, 1};
  Stopwatch watch;
  const GlobalSavePlan plan = plan_save(states, options);
  print("ranks", {{"plan_s", watch.lap()}});
  EXPECT_EQ(plan.catalog.tensors().size(), 8u);
  EXPECT_EQ(plan.catalog.chunks().size(), 4u * 256 + 4u * 64);
  std::size_t most = 0;
  for (const SavePlan& part : plan.parts) most = std::max(most, part.items().size());
  EXPECT_LE(most, 2u);
  expect_all_written(plan, states);
  const GlobalSavePlan again = plan_save(received(sent_by(states)), options);
  EXPECT_EQ(again.id, plan.id);
  expect_same(again, plan);
  for (std::size_t rank = 0; rank < states.size(); ++rank)
    ASSERT_EQ(again.parts[rank].encode(), plan.parts[rank].encode());
  RankState wanted(100);
  for (std::size_t i = 0; i < 8; ++i) {
    wanted.add_tensor(
        "w" + std::to_string(i), DType::float32,
        i % 2 == 0 ? TensorLayout::sharded({16384, 64}, 0, 512) : TensorLayout::sharded({512, 512}, 1, 512));
  }
  const Catalog catalog = located(plan);
  expect_all_read(catalog, wanted, plan_load(catalog, wanted));
}

TEST(PlanScale, TheSecondPlanIsFound) {
  const auto states = states_of(kReplans, TensorLayout::sharded({512, 64}, 0, 4), 4);
  const auto id = [&] {
    std::vector<Fingerprint> prints;
    for (const RankState& state : states) prints.push_back(state.fingerprint());
    return plan_id(prints, {});
  };
  PlanCache<GlobalSavePlan> cache;
  Stopwatch watch;
  cache.store(std::make_shared<const GlobalSavePlan>(plan_save(states)));
  const double first_s = watch.lap();
  const auto found = cache.find(id());
  const double second_s = watch.lap();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->chunks.size(), 4 * kReplans);
  const Fingerprint one = states[0].fingerprint();
  const double one_s = watch.lap();
  const auto bytes = found->parts[0].encode();
  const double encode_s = watch.lap();
  EXPECT_EQ(SavePlan::decode(bytes, states[0]).items().size(), kReplans);
  print("cached", {{"first_s", first_s},
                   {"second_s", second_s},
                   {"fingerprint_of_one_rank_s", one_s},
                   {"encode_part_s", encode_s},
                   {"decode_part_s", watch.lap()},
                   {"part_mb", static_cast<double>(bytes.size()) / 1e6}});
  EXPECT_NE(one, states[1].fingerprint());
}

}  // namespace
}  // namespace cairn
