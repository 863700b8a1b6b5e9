// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "cairn/error.hpp"
#include "cairn/plan.hpp"
#include "failure_of.hpp"
#include "plan_fixture.hpp"
#include "tsv.hpp"

namespace cairn {
namespace {

const SavePlanOptions kLowest{ReplicaRule::lowest_rank};

std::vector<std::string> names(const Catalog& catalog) {
  std::vector<std::string> out;
  for (const Entry& entry : catalog.entries()) out.emplace_back(catalog.name(entry));
  return out;
}

// Everything a plan says, as text.
std::string spelled(const GlobalSavePlan& plan, std::span<const RankState> states) {
  std::string out;
  for (const Entry& entry : plan.catalog.entries()) {
    out += fmt::format("{} {};", plan.catalog.name(entry), entry.is_tensor);
    if (!entry.is_tensor) continue;
    const TensorInfo& tensor = plan.catalog.tensors()[entry.index];
    for (const StoredItem& chunk : plan.catalog.chunks(tensor))
      out += to_string(plan.catalog.box(tensor, chunk));
  }
  for (const auto* items : {&plan.chunks, &plan.objects}) {
    for (const PlannedItem& item : *items) out += fmt::format("{}/{} ", item.rank, item.item);
  }
  for (const RankState& state : states) {
    const SavePlan& part = plan.parts[static_cast<std::size_t>(state.rank())];
    EXPECT_EQ(part.id, plan.id);
  }
  for (const SavePlan& part : plan.parts) {
    for (const std::byte byte : part.encode()) out += static_cast<char>(byte);
  }
  return out;
}

std::vector<std::uint64_t> bytes_by_rank(const GlobalSavePlan& plan) {
  std::vector<std::uint64_t> out;
  for (const SavePlan& part : plan.parts) {
    out.push_back(0);
    for (const WriteItem& item : part.items()) out.back() += item.bytes;
  }
  return out;
}

TEST(SavePlan, EntriesAndChunksComeInTheOrderOfTorch) {
  const auto rows = tsv_rows("plans/saved.tsv");
  ASSERT_GT(rows.size(), 100u);
  for (const auto& row : rows) {
    SCOPED_TRACE(row[0]);
    std::vector<RankState> states;
    std::map<std::string, std::int64_t> lengths;
    auto ranks = split(row[0], ';');
    ranks.pop_back();
    const auto at_plus = [](const std::string& text) {  // "@2+3"
      const auto parts = split(text.substr(1), '+');
      return Box{{std::stol(parts[0])}, {std::stol(parts[1])}};
    };
    for (const auto& rank : ranks) {
      for (const std::string& item : split(rank, ' ')) {
        if (const auto at = item.find('@'); at != std::string::npos) {
          const Box box = at_plus(item.substr(at));
          auto& length = lengths[item.substr(0, at)];
          length = std::max(length, box.offsets[0] + box.sizes[0]);
        }
      }
    }
    for (const auto& rank : ranks) {
      RankState& state = states.emplace_back(static_cast<int>(states.size()));
      for (const std::string& item : split(rank, ' ')) {
        const std::string name = item.substr(0, item.find('@'));
        if (item.empty()) continue;
        if (name == item) {
          state.add_object(name, 1);
          continue;
        }
        if (state.size() == 0 || state.name(state.size() - 1) != name)
          state.add_tensor(name, DType::float32, std::vector<std::int64_t>{lengths[name]});
        state.add_box(at_plus(item.substr(name.size())));
      }
    }
    const GlobalSavePlan plan = plan_save(states, kLowest);
    std::vector<std::string> found{row[0]};
    for (const Entry& entry : plan.catalog.entries()) {
      std::string& text = found.emplace_back(plan.catalog.name(entry));
      if (!entry.is_tensor) continue;
      const TensorInfo& tensor = plan.catalog.tensors()[entry.index];
      for (const StoredItem& chunk : plan.catalog.chunks(tensor)) {
        const BoxView box = plan.catalog.box(tensor, chunk);
        text += " @" + std::to_string(box.offsets[0]) + "+" + std::to_string(box.sizes[0]);
      }
    }
    EXPECT_EQ(found, row);
  }
}

// States whose tensors lie in all kinds of ways, with some that only a few ranks hold.
TEST(SavePlan, EveryElementIsWrittenOnceByARankThatHoldsIt) {
  std::mt19937 random(3);
  for (int round = 0; round < 150; ++round) {
    const int ranks = 1 + static_cast<int>(random() % 8);
    const RandomState state(random, ranks);
    const SavePlanOptions options{random() % 2 == 0 ? ReplicaRule::balanced : ReplicaRule::lowest_rank,
                                  random() % 3 * 20, 1 + static_cast<std::uint32_t>(random() % 3)};
    const auto states = state.of_all_ranks();
    const GlobalSavePlan plan = plan_save(states, options);
    for (std::size_t rank = 0; rank < states.size(); ++rank) {
      for (const WriteItem& item : plan.parts[rank].items()) {
        ASSERT_LT(item.file, options.files_per_rank);
        if (!states[rank].is_tensor(item.entry)) continue;
        const BoxView part = plan.parts[rank].box(states[rank], item);
        EXPECT_EQ(item.bytes, static_cast<std::uint64_t>(element_count(part.sizes)) *
                                  element_size(states[rank].dtype(item.entry)));
        if (part.empty()) continue;
        const BoxView whole = states[rank].box(item.entry, item.box);
        for (std::size_t d = 0; d < part.ndim(); ++d) {
          EXPECT_GE(part.offsets[d], whole.offsets[d]);
          EXPECT_LE(part.offsets[d] + part.sizes[d], whole.offsets[d] + whole.sizes[d]);
        }
      }
    }
    EXPECT_EQ(saved_elements(plan, states), state.all_elements());
  }
}

TEST(SavePlan, AnyOrderOfTheStatesGivesTheSamePlan) {
  std::mt19937 random(4);
  for (int round = 0; round < 50; ++round) {
    const RandomState state(random, 6);
    auto states = state.of_all_ranks();
    const SavePlanOptions options{ReplicaRule::balanced, 30, 2};
    const auto expected = spelled(plan_save(states, options), states);
    for (int i = 0; i < 5; ++i) {
      std::ranges::shuffle(states, random);
      EXPECT_EQ(spelled(plan_save(states, options), states), expected);
    }
  }
}

TEST(SavePlan, ThePartsOfAllRanksComeBackFromTheWire) {
  std::mt19937 random(5);
  for (int round = 0; round < 40; ++round) {
    const auto states = RandomState(random, 4).of_all_ranks();
    const GlobalSavePlan plan = plan_save(states, {ReplicaRule::balanced, 25, 2});
    for (std::size_t rank = 0; rank < states.size(); ++rank) {
      const auto bytes = plan.parts[rank].encode();
      const SavePlan copy = SavePlan::decode(bytes, states[rank]);
      EXPECT_EQ(copy.id, plan.id);
      EXPECT_EQ(copy.encode(), bytes);
      ASSERT_EQ(copy.items().size(), plan.parts[rank].items().size());
      for (std::size_t i = 0; i < copy.items().size(); ++i)
        EXPECT_EQ(copy.items()[i].bytes, plan.parts[rank].items()[i].bytes);
      for (std::size_t length = 0; length < bytes.size(); ++length) {
        const Error error =
            failure_of([&] { SavePlan::decode(std::span(bytes).first(length), states[rank]); });
        EXPECT_EQ(error.kind(), ErrorKind::corrupt);
      }
      for (int i = 0; i < 200; ++i) {
        auto damaged = bytes;
        damaged[16 + random() % (bytes.size() - 16)] = static_cast<std::byte>(random());
        try {
          const SavePlan other = SavePlan::decode(damaged, states[rank]);
          for (const WriteItem& item : other.items()) {
            if (states[rank].is_tensor(item.entry)) {
              EXPECT_TRUE(inside(other.box(states[rank], item), states[rank].shape(item.entry)));
            }
          }
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::corrupt);
        }
      }
    }
  }
}

TEST(SavePlan, ReplicasAreBalancedByBytes) {
  std::vector<RankState> states;
  for (int rank = 0; rank < 4; ++rank) {
    RankState& state = states.emplace_back(rank);
    state.add_tensor("own", DType::uint8,
                     TensorLayout::sharded({1600}, 0, std::vector<std::int64_t>{1000, 200, 200, 200}));
    for (int i = 0; i < 28; ++i)
      state.add_tensor("r" + std::to_string(i), DType::uint8, TensorLayout::replicated({100}, 4));
  }
  EXPECT_EQ(bytes_by_rank(plan_save(states)), (std::vector<std::uint64_t>{1100, 1100, 1100, 1100}));
  EXPECT_EQ(bytes_by_rank(plan_save(states, kLowest)), (std::vector<std::uint64_t>{3800, 200, 200, 200}));
}

TEST(SavePlan, TheLowestRankLeavesOthersWithNothing) {
  std::vector<RankState> states;
  for (int rank = 0; rank < 3; ++rank) {
    states.emplace_back(rank).add_object("step", 8);
    states.back().add_tensor("w", DType::float32, TensorLayout::replicated({4}, 3));
  }
  const GlobalSavePlan plan = plan_save(states, kLowest);
  EXPECT_EQ(plan.parts[0].items().size(), 2u);
  EXPECT_TRUE(plan.parts[1].items().empty());
  EXPECT_TRUE(plan.parts[2].items().empty());
}

TEST(SavePlan, ALargeReplicaIsSharedByItsHolders) {
  std::vector<RankState> states;
  for (int rank = 0; rank < 4; ++rank)
    states.emplace_back(rank).add_tensor("w", DType::float32, TensorLayout::replicated({1, 10, 25}, 4));
  EXPECT_EQ(bytes_by_rank(plan_save(states, {ReplicaRule::balanced, 1000, 1})),
            (std::vector<std::uint64_t>{1000, 0, 0, 0}));
  EXPECT_EQ(bytes_by_rank(plan_save(states, {ReplicaRule::balanced, 999, 1})),
            (std::vector<std::uint64_t>{500, 500, 0, 0}));
  EXPECT_EQ(bytes_by_rank(plan_save(states, {ReplicaRule::lowest_rank, 1, 1})),
            (std::vector<std::uint64_t>{300, 300, 200, 200}));
}

TEST(SavePlan, FilesHoldObjectsFirstAndAreEven) {
  RankState state(0);
  for (int i = 0; i < 6; ++i) {
    state.add_tensor("t" + std::to_string(i), DType::uint8, TensorLayout::replicated({10}, 1));
    state.add_object("o" + std::to_string(i), 10);
  }
  const GlobalSavePlan plan = plan_save(std::span(&state, 1), {ReplicaRule::balanced, 0, 3});
  std::vector<std::uint64_t> bytes(3, 0);
  std::pair<std::uint32_t, bool> last{0, false};
  for (const WriteItem& item : plan.parts[0].items()) {
    const std::pair<std::uint32_t, bool> here{item.file, state.is_tensor(item.entry)};
    EXPECT_GE(here, last);
    last = here;
    bytes[item.file] += item.bytes;
  }
  EXPECT_EQ(bytes, (std::vector<std::uint64_t>{40, 40, 40}));
  EXPECT_EQ(names(plan.catalog).front(), "t0");
}

TEST(SavePlan, TensorsWithoutElementsAreOneItem) {
  std::vector<RankState> states;
  for (int rank = 0; rank < 3; ++rank)
    states.emplace_back(rank).add_tensor("e", DType::float32, TensorLayout::sharded({0, 4}, 1, 3));
  const GlobalSavePlan plan = plan_save(states);
  ASSERT_EQ(plan.catalog.chunks().size(), 1u);
  EXPECT_EQ(to_string(plan.catalog.box(plan.catalog.tensors()[0], plan.catalog.chunks()[0])), "[0:0, 0:4]");
}

TEST(SavePlan, PathsAreCarried) {
  RankState state(0);
  state.add_tensor("l.0.w", DType::int8, TensorLayout::replicated({1}, 1),
                   std::vector<NameCut>{{1}, {1, true}, {1}});
  state.add_tensor("l.1.w", DType::int8, TensorLayout::replicated({1}, 1),
                   std::vector<NameCut>{{1}, {1, true}, {1}});
  state.add_object("a.b", 1, std::vector<NameCut>{{3}});
  state.add_object("flat", 1);
  const Catalog catalog = plan_save(std::span(&state, 1)).catalog;
  const auto first = catalog.path(catalog.entries()[0]), second = catalog.path(catalog.entries()[1]);
  ASSERT_EQ(first.size(), 3u);
  EXPECT_EQ(catalog.text(static_cast<StringId>(first[0].value)), "l");
  EXPECT_TRUE(second[1].is_position);
  EXPECT_EQ(second[1].value, 1);
  EXPECT_EQ(first[2].value, second[2].value);  // one key, one string
  EXPECT_EQ(catalog.path(catalog.entries()[2])[0].value, catalog.objects()[0].name);
  EXPECT_FALSE(catalog.entries()[3].has_path);
}

TEST(SavePlan, PathsThatOnlySpellAlikeFit) {
  RankState state(0);
  state.add_object("a.b", 1, std::vector<NameCut>{{3}});
  state.add_object("a.b.c", 1, std::vector<NameCut>{{1}, {1}, {1}});
  state.add_object("a.0.x", 1, std::vector<NameCut>{{1}, {1}, {1}});
  state.add_object("a.b.d", 1, std::vector<NameCut>{{1}, {3}});
  EXPECT_EQ(plan_save(std::span(&state, 1)).catalog.entries().size(), 4u);
}

TEST(SavePlan, LocatedFillsInWhatRanksReport) {
  std::vector<RankState> states;
  for (int rank = 0; rank < 3; ++rank) {
    states.emplace_back(rank).add_tensor("w", DType::uint8, TensorLayout::sharded({4}, 0, 3));
    states.back().add_object("o", 5);
  }
  const GlobalSavePlan plan = plan_save(states, kLowest);
  std::vector<std::vector<ItemPlace>> places{{{0, 100}, {100, 50}}, {{0, 60}}, {}};
  const auto file_name = [](int rank, std::uint32_t file) {
    return "__" + std::to_string(rank) + "_" + std::to_string(file) + ".distcp";
  };
  const Catalog catalog = plan.located(places, file_name);
  EXPECT_EQ(catalog.files().size(), 2u);
  EXPECT_EQ(catalog.files()[catalog.chunks()[1].file], "__1_0.distcp");
  EXPECT_EQ(catalog.chunks()[0].byte_offset, 100u);
  EXPECT_EQ(catalog.objects()[0].item.byte_length, 100u);
  EXPECT_EQ(plan.catalog.chunks()[0].file, kNoFile);
  places[1].clear();
  EXPECT_TRUE(contains(failure_of([&] { plan.located(places, file_name); }), "rank 1 reports 0 items of 1"));
}

struct Disagreement {
  std::string_view expected;
  std::function<void(RankState&, int rank)> add;
};

TEST(SavePlan, FaultsNameTensorBoxAndRank) {
  const auto tensor = [](RankState& state, std::int64_t begin, std::int64_t size) {
    state.add_tensor("w", DType::float32, std::vector<std::int64_t>{10});
    state.add_box(Box{{begin}, {size}});
  };
  const std::vector<Disagreement> cases{
      {"'w' of shape [10]: element [4] is held by no rank",
       [&](RankState& s, int rank) { tensor(s, rank * 5, 5 - (rank == 0 ? 1 : 0)); }},
      {"element [4] lies in several boxes: box [0:5] of rank 0",
       [&](RankState& s, int rank) { tensor(s, rank * 4, rank == 0 ? 5 : 6); }},
      {"rank 1", [&](RankState& s, int rank) { tensor(s, rank * 4, rank == 0 ? 5 : 6); }},
      {"no rank holds an element",
       [](RankState& s, int) { s.add_tensor("w", DType::float32, std::vector<std::int64_t>{10}); }},
      {"dtype is float32 on rank 0, float64 on rank 1",
       [](RankState& s, int rank) {
         s.add_tensor("w", rank == 0 ? DType::float32 : DType::float64, TensorLayout::replicated({2}, 2));
       }},
      {"shape is [2] on rank 0, [3] on rank 1",
       [](RankState& s, int rank) {
         s.add_tensor("w", DType::float32, TensorLayout::replicated({2 + rank}, 2));
       }},
      {"it is a tensor on rank 0, an object on rank 1",
       [](RankState& s, int rank) {
         if (rank == 0)
           s.add_tensor("w", DType::float32, TensorLayout::replicated({2}, 2));
         else
           s.add_object("w", 1);
       }},
      {"the path is one on rank 0, another on rank 1",
       [](RankState& s, int rank) {
         s.add_object("a.b", 1, rank == 0 ? std::vector<NameCut>{{3}} : std::vector<NameCut>{{1}, {1}});
       }},
      {"'w' is twice in the state of rank 0",
       [](RankState& s, int) {
         s.add_object("w", 1);
         s.add_object("w", 1);
       }},
      {"'w': rank 0 holds box [0:5] twice",
       [&](RankState& s, int) {
         tensor(s, 0, 5);
         s.add_box(Box{{0}, {5}});
       }},
      {"'a.0' and 'a.x' would make one container a dict and a list",
       [](RankState& s, int rank) {
         if (rank == 0) s.add_object("a.0", 1, std::vector<NameCut>{{1}, {1, true}});
         if (rank == 1) s.add_object("a.x", 1, std::vector<NameCut>{{1}, {1}});
       }},
      {"'a.b' would lie under 'a'",
       [](RankState& s, int rank) {
         if (rank == 0) s.add_object("a.b", 1, std::vector<NameCut>{{1}, {1}});
         if (rank == 1) s.add_object("a", 1);  // without a path: its only key
       }},
      {"'a.b' would lie under 'a'",
       [](RankState& s, int rank) {
         if (rank == 0) s.add_object("a", 1, std::vector<NameCut>{{1}});
         if (rank == 1) s.add_object("a.b", 1, std::vector<NameCut>{{1}, {1}});
       }},
  };
  for (const Disagreement& one : cases) {
    std::vector<RankState> states;
    for (int rank = 0; rank < 2; ++rank) one.add(states.emplace_back(rank), rank);
    const Error error = failure_of([&] { plan_save(states); });
    EXPECT_EQ(error.kind(), ErrorKind::mismatch);
    EXPECT_TRUE(contains(error, one.expected)) << error.what();
  }
}

TEST(SavePlan, StatesOfAllRanksAreNeeded) {
  const std::vector<RankState> twice{RankState(1), RankState(1)}, beyond{RankState(0), RankState(2)};
  EXPECT_EQ(failure_of([&] { plan_save(twice); }).kind(), ErrorKind::invalid_argument);
  EXPECT_EQ(failure_of([&] { plan_save(beyond); }).kind(), ErrorKind::invalid_argument);
  EXPECT_EQ(plan_save({}).parts.size(), 0u);
  const std::vector<RankState> nothing{RankState(0), RankState(1)};
  EXPECT_TRUE(plan_save(nothing).catalog.entries().empty());
}

TEST(PlanCache, FindsThePlanOfAnUnchangedState) {
  const auto states_of = [](std::int64_t rows) {
    std::vector<RankState> states;
    for (int rank = 0; rank < 2; ++rank)
      states.emplace_back(rank).add_tensor("w", DType::int8, TensorLayout::sharded({rows}, 0, 2));
    return states;
  };
  const auto id_of = [](const std::vector<RankState>& states, const SavePlanOptions& options = {}) {
    std::vector<Fingerprint> prints;
    for (const RankState& state : states) prints.push_back(state.fingerprint());
    return plan_id(prints, options);
  };
  PlanCache<GlobalSavePlan> cache;
  const auto plan = std::make_shared<const GlobalSavePlan>(plan_save(states_of(8)));
  cache.store(plan);
  EXPECT_EQ(cache.find(id_of(states_of(8))), plan);
  EXPECT_EQ(plan->parts[1].id, plan->id);
  EXPECT_FALSE(cache.find(id_of(states_of(9))));
  EXPECT_FALSE(cache.find(id_of(states_of(8), kLowest)));
  EXPECT_FALSE(cache.find(id_of(states_of(8), {ReplicaRule::balanced, 5, 1})));
  EXPECT_FALSE(cache.find(id_of(states_of(8), {ReplicaRule::balanced, 0, 2})));
  for (const std::int64_t rows : {9, 10})
    cache.store(std::make_shared<const GlobalSavePlan>(plan_save(states_of(rows))));
  EXPECT_FALSE(cache.find(plan->id));
  EXPECT_TRUE(cache.find(id_of(states_of(9))));
}

}  // namespace
}  // namespace cairn
