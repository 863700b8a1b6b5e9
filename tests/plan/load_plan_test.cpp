// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "cairn/error.hpp"
#include "failure_of.hpp"
#include "plan_fixture.hpp"

namespace cairn {
namespace {

using Shape = std::vector<std::int64_t>;

/// Plans a save, puts the items into files back to back, and gives the catalogue.
Catalog saved(const std::vector<RankState>& states, const SavePlanOptions& options = {}) {
  const GlobalSavePlan plan = plan_save(states, options);
  std::vector<std::vector<ItemPlace>> places;
  for (const SavePlan& part : plan.parts) {
    std::map<std::uint32_t, std::uint64_t> ends;
    places.emplace_back();
    for (const WriteItem& item : part.items()) {
      places.back().push_back({ends[item.file], item.bytes});
      ends[item.file] += item.bytes;
    }
  }
  return plan.located(places, [](int rank, std::uint32_t file) {
    return "__" + std::to_string(rank) + "_" + std::to_string(file) + ".distcp";
  });
}

// What is stored knows the place of each element: the linear index. The chunk and its sub-box lead to it on
// one way, the wanted box and its sub-box on the other.
void expect_iota(const Catalog& catalog, const RankState& state, const LoadPlan& plan) {
  std::map<std::pair<std::size_t, std::size_t>, std::vector<std::int64_t>> arrived;
  for (std::size_t entry = 0; entry < state.size(); ++entry) {
    for (std::size_t box = 0; box < state.box_count(entry); ++box) {
      arrived[{entry, box}].assign(static_cast<std::size_t>(element_count(state.box(entry, box).sizes)), -1);
    }
  }
  for (const ReadItem& item : plan.items()) {
    const TensorInfo& tensor = catalog.tensors()[item.tensor];
    const BoxView chunk = catalog.box(tensor, catalog.chunks()[item.chunk]);
    std::vector<std::int64_t> stored;  // the chunk's bytes
    for_each_element(chunk, [&](const Shape& at) { stored.push_back(linear(catalog.shape(tensor), at)); });
    const Box from = plan.in_chunk(catalog, item), to = plan.in_wanted(catalog, state, item);
    std::vector<std::int64_t> moved;
    for_each_element(from, [&](const Shape& at) {
      moved.push_back(stored[static_cast<std::size_t>(linear(chunk.sizes, at))]);
    });
    auto& target = arrived[{item.entry, item.box}];
    std::size_t next = 0;
    for_each_element(to, [&](const Shape& at) {
      auto& element = target[static_cast<std::size_t>(linear(state.box(item.entry, item.box).sizes, at))];
      EXPECT_EQ(element, -1);  // written once
      element = moved[next++];
    });
    EXPECT_EQ(next, moved.size());
  }
  for (const auto& [where, elements] : arrived) {
    std::vector<std::int64_t> expected;
    for_each_element(state.box(where.first, where.second),
                     [&](const Shape& at) { expected.push_back(linear(state.shape(where.first), at)); });
    EXPECT_EQ(elements, expected);
  }
}

// Saved by M ranks, loaded by N, in layouts of their own.
TEST(LoadPlan, EveryLayoutLoadsIntoEveryOther) {
  std::mt19937 random(11);
  for (int from = 1; from <= 8; ++from) {
    for (int to = 1; to <= 8; ++to) {
      for (int round = 0; round < 3; ++round) {
        RandomState state(random, from);
        const Catalog catalog = saved(state.of_all_ranks(), {ReplicaRule::balanced, 30 * (random() % 2), 2});
        state.lay_out(random, to);
        std::vector<LoadFindings> findings;
        for (const RankState& wanted : state.of_all_ranks()) {
          const LoadPlan plan = plan_load(catalog, wanted);
          expect_iota(catalog, wanted, plan);
          EXPECT_EQ(plan.objects().size(), 6u);
          findings.push_back(LoadFindings::decode(plan.findings().encode()));
        }
        judge_load(catalog, findings).throw_if_any();
      }
    }
  }
}

TEST(LoadPlan, ItemsComeInFileOrder) {
  std::mt19937 random(12);
  RandomState state(random, 7);
  const Catalog catalog = saved(state.of_all_ranks(), {ReplicaRule::balanced, 0, 2});
  state.lay_out(random, 2);
  const LoadPlan plan = plan_load(catalog, state.of_rank(0));
  std::pair<std::uint32_t, std::uint64_t> last{0, 0};
  for (const ReadItem& item : plan.items()) {
    const StoredItem& chunk = catalog.chunks()[item.chunk];
    EXPECT_LE(last, std::pair(chunk.file, chunk.byte_offset));
    last = {chunk.file, chunk.byte_offset};
  }
}

// Both ways of looking for chunks: a few boxes, and many through an index, of grids and of others.
TEST(LoadPlan, ManyBoxesOfOneTensorFindTheSame) {
  std::vector<RankState> rows, uneven;
  std::vector<std::vector<Box>> listed(3);
  for (std::int64_t i = 0; i < 40; ++i) {
    listed[static_cast<std::size_t>(i % 3)].push_back({{i, 0}, {1, i + 1}});
    listed[static_cast<std::size_t>(i % 2)].push_back({{i, i + 1}, {1, 40 - i}});
  }
  for (int rank = 0; rank < 13; ++rank)
    rows.emplace_back(rank).add_tensor("w", DType::float32, TensorLayout::sharded({40, 41}, 0, 13));
  for (int rank = 0; rank < 3; ++rank)
    uneven.emplace_back(rank).add_tensor("w", DType::float32, TensorLayout::listed({40, 41}, listed));
  RankState wanted(0);
  wanted.add_tensor("w", DType::float32, Shape{40, 41});
  for (std::int64_t i = 0; i + 3 <= 40; ++i) wanted.add_box(Box{{i, 40 - i - 2}, {3, 3}});
  for (const auto* states : {&rows, &uneven}) {
    const Catalog catalog = saved(*states);
    const LoadPlan plan = plan_load(catalog, wanted);
    EXPECT_TRUE(plan.findings().faults.empty());
    expect_iota(catalog, wanted, plan);
  }
}

struct Names {
  Catalog catalog;
  std::vector<RankState> states;

  Names() {
    RankState stored(0);
    stored.add_tensor("w", DType::float32, TensorLayout::replicated({4}, 1));
    stored.add_tensor("half", DType::float16, TensorLayout::replicated({4}, 1));
    stored.add_tensor("long", DType::int64, TensorLayout::replicated({4}, 1));
    stored.add_tensor("bias", DType::float32, TensorLayout::replicated({4}, 1));
    stored.add_object("step", 8);
    stored.add_object("old.a", 8);
    catalog = saved({stored});
    states.emplace_back(0);
    states.emplace_back(1);
  }
  LoadVerdict report(const LoadPlanOptions& options = {}) const {
    std::vector<LoadFindings> findings;
    for (const RankState& state : states) findings.push_back(plan_load(catalog, state, options).findings());
    std::ranges::reverse(findings);
    return judge_load(catalog, findings, options);
  }
};

std::vector<std::string> shown(const LoadVerdict& report) {
  std::vector<std::string> out;
  for (const LoadFault& fault : report.faults)
    out.push_back(std::string(to_string(fault.kind)) + " " + fault.name);
  return out;
}

TEST(LoadVerdict, HoldsAllThatDoesNotFit) {
  Names names;
  names.states[0].add_tensor("w", DType::float32, TensorLayout::sharded({5}, 0, 2));
  names.states[1].add_tensor("w", DType::float32, TensorLayout::sharded({5}, 0, 2));
  names.states[0].add_tensor("half", DType::float32, TensorLayout::replicated({4}, 2));
  names.states[1].add_tensor("new", DType::float32, TensorLayout::replicated({4}, 2));
  names.states[1].add_object("bias", 1);
  names.states[0].add_object("step", 1);
  const LoadVerdict report = names.report();
  EXPECT_EQ(shown(report), (std::vector<std::string>{"shape w", "dtype half", "missing new", "kind bias",
                                                     "unexpected long", "unexpected old.a"}));
  EXPECT_EQ(report.faults[0].message,
            "'w' is of shape [4] in the checkpoint, of shape [5] in the state (rank 0)");
}

TEST(LoadVerdict, StrictnessAndGlobsSayWhatMayDiffer) {
  Names names;
  names.states[0].add_tensor("w", DType::float32, TensorLayout::replicated({4}, 1));
  names.states[0].add_tensor("new.a", DType::float32, TensorLayout::replicated({4}, 1));
  names.states[1].add_object("new.b", 1);
  EXPECT_EQ(names.report().faults.size(), 7u);
  const LoadVerdict lenient = names.report({false, {}, {}, {}});
  lenient.throw_if_any();
  EXPECT_EQ(lenient.missing, (std::vector<std::string>{"new.a", "new.b"}));
  EXPECT_EQ(lenient.unexpected, (std::vector<std::string>{"bias", "half", "long", "old.a", "step"}));
  const LoadVerdict some = names.report({true, {"new.*"}, {"old.*", "[bhl]*"}, {}});
  EXPECT_EQ(shown(some), (std::vector<std::string>{"unexpected step"}));
  EXPECT_EQ(some.missing, (std::vector<std::string>{"new.a", "new.b"}));
}

TEST(LoadVerdict, CastsAreMadeOnlyWhenAskedFor) {
  Names names;
  names.states[0].add_tensor("half", DType::float32, TensorLayout::replicated({4}, 1));
  names.states[0].add_tensor("long", DType::float32, TensorLayout::replicated({4}, 1));
  LoadPlanOptions options{false, {}, {}, {}};
  EXPECT_EQ(shown(names.report(options)), (std::vector<std::string>{"dtype half", "dtype long"}));
  options.cast = {"h*"};
  EXPECT_EQ(shown(names.report(options)), (std::vector<std::string>{"dtype long"}));
  options.cast = {"*"};  // there is no cast from integers
  EXPECT_EQ(shown(names.report(options)), (std::vector<std::string>{"dtype long"}));
  const LoadPlan plan = plan_load(names.catalog, names.states[0], options);
  ASSERT_EQ(plan.items().size(), 1u);
  EXPECT_EQ(names.catalog.name(names.catalog.tensors()[plan.items()[0].tensor]), "half");
}

TEST(LoadVerdict, AnErrorShowsAThousandAndCountsTheRest) {
  Names names;
  for (int i = 0; i < 1020; ++i) names.states[0].add_object("x" + std::to_string(i), 1);
  const Error error = failure_of([&] { names.report().throw_if_any(); });
  EXPECT_EQ(error.kind(), ErrorKind::mismatch);
  EXPECT_TRUE(contains(error, "1020 missing, 6 unexpected"));
  EXPECT_TRUE(contains(error, "'x999' is not in the checkpoint (rank 0)"));
  EXPECT_FALSE(contains(error, "'x1000'"));
  EXPECT_TRUE(contains(error, "and 26 more"));
}

TEST(LoadPlan, AHoleInAWantedBoxIsFound) {
  Catalog catalog;
  catalog.add_tensor(catalog.add_string("w"), DType::float32, Shape{10});
  catalog.add_chunk(Box{{0}, {4}}, 0, 0, 16);
  catalog.add_chunk(Box{{5}, {5}}, 0, 16, 20);
  for (const auto& [begin, size, holes] :
       {std::tuple(0, 4, 0u), std::tuple(5, 5, 0u), std::tuple(3, 3, 1u)}) {
    RankState wanted(0);
    wanted.add_tensor("w", DType::float32, Shape{10});
    wanted.add_box(Box{{begin}, {size}});
    EXPECT_EQ(plan_load(catalog, wanted).findings().faults.size(), holes);
  }
}

TEST(LoadPlan, ANameIsWantedOnce) {
  Names names;
  names.states[0].add_object("step", 1);
  names.states[0].add_object("step", 1);
  EXPECT_EQ(failure_of([&] { plan_load(names.catalog, names.states[0]); }).kind(),
            ErrorKind::invalid_argument);
}

TEST(LoadFindings, DamageIsCorrupt) {
  Names names;
  names.states[0].add_object("x", 1);
  const auto bytes = plan_load(names.catalog, names.states[0]).findings().encode();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const Error error = failure_of([&] { LoadFindings::decode(std::span(bytes).first(length)); });
    EXPECT_EQ(error.kind(), ErrorKind::corrupt);
  }
  const LoadFindings other{0, {}, {}, {true}};
  EXPECT_EQ(failure_of([&] { judge_load(names.catalog, std::span(&other, 1)); }).kind(), ErrorKind::mismatch);
}

}  // namespace
}  // namespace cairn
