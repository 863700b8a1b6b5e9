// SPDX-License-Identifier: BSD-3-Clause
#include "cairn/state.hpp"

#include <gtest/gtest.h>

#include <random>

#include "base/byte_writer.hpp"
#include "cairn/error.hpp"
#include "failure_of.hpp"
#include "tsv.hpp"

namespace cairn {
namespace {

using Shape = std::vector<std::int64_t>;

// As make_plans.py spells states.
StateNode parse(std::string_view& text) {
  const char first = text[0];
  text.remove_prefix(1);
  if (first == 'T') return StateNode::tensor(0);
  if (first == 'O') return StateNode::object(0);
  const char closing = first == '{' ? '}' : first == '[' ? ']' : ')';
  std::vector<std::pair<std::string, StateNode>> items;
  while (text[0] != closing) {
    if (text[0] == ',') text.remove_prefix(1);
    std::string key;
    if (first == '{') {
      key = text.substr(0, text.find(':'));
      text.remove_prefix(key.size() + 1);
    }
    items.emplace_back(std::move(key), parse(text));
  }
  text.remove_prefix(1);
  if (first == '{') return StateNode::dict(std::move(items));
  std::vector<StateNode> values;
  for (auto& [key, value] : items) values.push_back(std::move(value));
  return first == '[' ? StateNode::list(std::move(values)) : StateNode::tuple(std::move(values));
}

std::string shown(const FlatEntry& entry) {
  std::string out = entry.name + "=";
  std::size_t at = 0;
  for (std::size_t i = 0; i < entry.cuts.size(); ++i) {
    out += (i == 0 ? "" : "/") + std::string(entry.cuts[i].is_position ? "#" : "") +
           entry.name.substr(at, entry.cuts[i].length);
    at += entry.cuts[i].length + 1;
  }
  return out;
}

TEST(Flatten, GivesTheNamesAndPathsOfTorch) {
  const auto rows = tsv_rows("plans/flat.tsv");
  ASSERT_GT(rows.size(), 200u);
  for (auto row : rows) {
    SCOPED_TRACE(row[0]);
    std::string_view text = row[0];
    const StateNode state = parse(text);
    if (row.size() == 2 && row[1] == "refused") {
      EXPECT_EQ(failure_of([&] { flatten(state); }).kind(), ErrorKind::invalid_argument);
      continue;
    }
    std::vector<std::string> expected(row.begin() + 1, row.end()), found;
    for (const FlatEntry& entry : flatten(state)) found.push_back(shown(entry));
    if (expected == std::vector<std::string>{""}) expected.clear();
    EXPECT_EQ(found, expected);
  }
}

TEST(Flatten, LeavesPointToTheValuesThatAreStored) {
  const StateNode state =
      StateNode::dict({{"w", StateNode::tensor(7)},
                       {"betas", StateNode::tuple({StateNode::object(1), StateNode::object(2)})}});
  const auto flat = flatten(state);
  EXPECT_EQ(flat[0].value->id, 7u);
  EXPECT_EQ(flat[1].value, &state.items[1]);
}

TEST(Flatten, EndlessNestingIsRefused) {
  for (const bool is_list : {false, true}) {
    StateNode state = StateNode::tensor(0);
    for (int i = 0; i < 2000; ++i) {
      std::vector<StateNode> one;
      one.push_back(std::move(state));
      if (is_list) {
        state = StateNode::list(std::move(one));
      } else {
        state = StateNode{StateNode::Kind::dict, 0, {"k"}, std::move(one)};
      }
    }
    state = StateNode{StateNode::Kind::dict, 0, {"root"}, {std::move(state)}};
    EXPECT_TRUE(contains(failure_of([&] { flatten(state); }), "1000 levels"));
  }
  EXPECT_EQ(failure_of([] { flatten(StateNode::list({})); }).kind(), ErrorKind::invalid_argument);
}

RankState example(int rank = 3) {
  RankState state(rank);
  const std::vector<NameCut> cuts{{1}, {1, true}, {1}};
  state.add_tensor("l.0.w", DType::bfloat16, Shape{6, 4}, cuts);
  state.add_box(Box{{0, 0}, {2, 4}});
  state.add_box(Box{{4, 1}, {2, 3}});
  state.add_tensor("l.0.wide", DType::float32, TensorLayout::replicated({6, 4}, 8));
  state.add_tensor("scalar", DType::int64, TensorLayout::replicated({}, 8));
  state.add_tensor("none", DType::int64, Shape{5});
  state.add_object("step", 100, std::vector<NameCut>{{4}});
  state.add_rank_object("rng", 1 << 20, std::vector<NameCut>{{3}});
  return state;
}

TEST(RankState, ComesBackFromTheWire) {
  const RankState state = example(), copy = RankState::decode(state.encode());
  EXPECT_EQ(copy.encode(), state.encode());
  EXPECT_EQ(copy.fingerprint(), state.fingerprint());
  EXPECT_EQ(copy.name(5), "rng.rank_3");
  EXPECT_EQ(copy.kind(5), RankState::Kind::rank_object);
  EXPECT_EQ(copy.cuts(5).size(), 2u);
  EXPECT_EQ(copy.object_bytes(5), 1u << 20);
  EXPECT_EQ(copy.dtype(0), DType::bfloat16);
  EXPECT_EQ(to_string(copy.box(0, 1)), "[4:6, 1:4]");
  EXPECT_EQ(to_string(copy.box(1, 0)), "[0:6, 0:4]");
  EXPECT_EQ(copy.box_count(2), 1u);
  EXPECT_EQ(copy.box_count(3), 0u);
}

TEST(RankState, DamageIsCorruptAndNothingElse) {
  const auto bytes = example().encode();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const Error error = failure_of([&] { RankState::decode(std::span(bytes).first(length)); });
    EXPECT_EQ(error.kind(), ErrorKind::corrupt);
  }
  std::mt19937 random(5);
  for (int round = 0; round < 20000; ++round) {
    auto damaged = bytes;
    for (int i = 0; i < 2; ++i) damaged[random() % damaged.size()] = static_cast<std::byte>(random());
    try {
      RankState::decode(damaged).encode();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::corrupt);
    }
  }
}

TEST(RankState, EveryChangeHasAnotherFingerprint) {
  std::vector<Fingerprint> seen{example().fingerprint(), example(4).fingerprint(),
                                RankState(3).fingerprint()};
  const auto with = [&](auto&& change) {
    RankState state = example();
    change(state);
    seen.push_back(state.fingerprint());
  };
  with([](RankState& s) { s.add_tensor("x", DType::float32, Shape{4}); });
  with([](RankState& s) { s.add_tensor("x", DType::float32, Shape{5}); });
  with([](RankState& s) { s.add_tensor("x", DType::float16, Shape{4}); });
  with([](RankState& s) { s.add_tensor("y", DType::float32, Shape{4}); });
  with([](RankState& s) { s.add_tensor("1", DType::float32, Shape{4}); });
  with([](RankState& s) { s.add_tensor("1", DType::float32, Shape{4}, std::vector<NameCut>{{1}}); });
  with([](RankState& s) { s.add_tensor("a.1", DType::float32, Shape{4}, std::vector<NameCut>{{1}, {1}}); });
  with([](RankState& s) {
    s.add_tensor("a.1", DType::float32, Shape{4}, std::vector<NameCut>{{1}, {1, true}});
  });
  with([](RankState& s) { s.add_object("x", 4); });
  with([](RankState& s) { s.add_object("x", 5); });
  for (const std::int64_t at : {0, 1}) {
    with([&](RankState& s) {
      s.add_tensor("x", DType::float32, Shape{4});
      s.add_box(Box{{at}, {2}});
    });
  }
  std::ranges::sort(seen);
  EXPECT_EQ(std::ranges::adjacent_find(seen), seen.end());
}

TEST(RankState, WhatMakesNoSenseIsRefused) {
  const auto refused = [](auto&& body) {
    RankState state(0);
    EXPECT_EQ(failure_of([&] { body(state); }).kind(), ErrorKind::invalid_argument);
  };
  refused([](RankState& s) { s.add_tensor("a.b", DType::int8, Shape{}, std::vector<NameCut>{{1}}); });
  refused([](RankState& s) { s.add_tensor("a.b", DType::int8, Shape{}, std::vector<NameCut>{{1}, {2}}); });
  refused([](RankState& s) { s.add_tensor("a-b", DType::int8, Shape{}, std::vector<NameCut>{{1}, {1}}); });
  refused([](RankState& s) { s.add_object("a.b", 1, std::vector<NameCut>{{1}, {1, true}}); });
  refused([](RankState& s) { s.add_object("0.b", 1, std::vector<NameCut>{{1, true}, {1}}); });
  refused([](RankState& s) { s.add_tensor("a", DType::int8, Shape{-1}); });
  refused([](RankState& s) { s.add_box(Box{{0}, {1}}); });
  refused([](RankState& s) {
    s.add_object("a", 1);
    s.add_box(Box{});
  });
  refused([](RankState& s) {
    s.add_tensor("a", DType::int8, Shape{3});
    s.add_box(Box{{2}, {2}});
  });
  refused([](RankState& s) { s.add_tensor("a", DType::int64, Shape{1ll << 62}); });
  refused([](RankState& s) {
    s.add_tensor("a", DType::int8, Shape{});
    for (int i = 0; i < 2; ++i) s.add_box(Box{});
  });
}

}  // namespace
}  // namespace cairn
