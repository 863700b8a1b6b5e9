// SPDX-License-Identifier: BSD-3-Clause
#include "formats/torch_file/flat_state.hpp"

#include <gtest/gtest.h>

#include <string>

#include "failure_of.hpp"

namespace cairn::torch_file {
namespace {

using pickle::Arena;
using pickle::Construct;
using pickle::Value;

constexpr std::size_t kRoom = 4096;  // as if the pickle had so many bytes

class FlatStates : public testing::Test {
 protected:
  Value text(const std::string& value) { return arena_.string(value); }
  Value dict(std::initializer_list<Value> keys_and_values) {
    const Value made = arena_.dict();
    arena_.set_all(made, std::vector<Value>(keys_and_values));
    return made;
  }
  Value list(std::initializer_list<Value> items) {
    const Value made = arena_.list();
    arena_.append_all(made, std::vector<Value>(items));
    return made;
  }
  Value tensor() {
    return arena_.object(Construct::reduce, arena_.global("torch._utils", "_rebuild_tensor_v2"),
                         arena_.tuple(std::vector<Value>{arena_.integer(0)}));
  }
  // "name=kind@path" of each entry; integer keys in < >, positions in [ ].
  std::vector<std::string> entries(Value root, EmptyDicts empty_dicts = EmptyDicts::drop) {
    const FlatState state(arena_, root, kRoom, empty_dicts);
    std::vector<std::string> found;
    state.visit_all([&](std::string_view name, std::span<const FlatState::Step> path, Value, bool is_tensor) {
      std::string entry = std::string(name) + (is_tensor ? "=tensor" : "=object");
      for (const auto& [key, is_integer, position] : path) {
        if (position >= 0)
          entry += "[" + std::to_string(position) + "]";
        else
          entry += (is_integer ? "<" : "(") + std::string(key) + (is_integer ? ">" : ")");
      }
      found.push_back(entry);
    });
    return found;
  }
  Error refusal(Value root, std::size_t room = kRoom) {
    return failure_of([&] { FlatState(arena_, root, room, EmptyDicts::drop); });
  }

  Arena arena_;
};

TEST_F(FlatStates, DictsAreWalkedAndIntegerKeysAreTold) {
  const Value state = dict({arena_.integer(0), dict({text("step"), tensor()}), text("0"), tensor()});
  EXPECT_EQ(entries(dict({text("a"), tensor()})), std::vector<std::string>{"a=tensor(a)"});
  EXPECT_EQ(entries(dict({text("s"), state})),
            (std::vector<std::string>{"s.0.step=tensor(s)<0>(step)", "s.0=tensor(s)(0)"}));
}

TEST_F(FlatStates, ListsAreWalkedWhereTheyHoldTensorsOrDicts) {
  const Value one = arena_.integer(1);
  EXPECT_EQ(entries(dict({text("l"), list({one, tensor()})})),
            (std::vector<std::string>{"l.0=object(l)[0]", "l.1=tensor(l)[1]"}));
  EXPECT_EQ(entries(dict({text("l"), list({one, text("x")})})), std::vector<std::string>{"l=object(l)"});
  EXPECT_EQ(entries(dict({text("l"), list({list({dict({text("k"), one})})})})),
            std::vector<std::string>{"l.0.0.k=object(l)[0][0](k)"});
  EXPECT_EQ(entries(dict({text("l"), list({list({one}), arena_.tuple(std::vector{tensor()})})})),
            std::vector<std::string>{"l=object(l)"});
}

TEST_F(FlatStates, TuplesAreObjects) {
  EXPECT_EQ(entries(dict({text("t"), arena_.tuple(std::vector{tensor(), tensor()})})),
            std::vector<std::string>{"t=object(t)"});
}

TEST_F(FlatStates, MappingsOfTheStandardLibraryAreDicts) {
  const Value ordered =
      arena_.object(Construct::reduce, arena_.global("collections", "OrderedDict"), arena_.tuple({}));
  arena_.set_item(ordered, text("w"), tensor());
  const Value defaults = arena_.object(Construct::reduce, arena_.global("collections", "defaultdict"),
                                       arena_.tuple(std::vector{arena_.global("builtins", "dict")}));
  arena_.set_item(defaults, text("w"), tensor());
  const Value counter = arena_.object(Construct::reduce, arena_.global("collections", "Counter"),
                                      arena_.tuple(std::vector{dict({text("w"), arena_.integer(3)})}));
  const Value other = arena_.object(Construct::reduce, arena_.global("mine", "Dict"), arena_.tuple({}));
  arena_.set_item(other, text("w"), tensor());
  EXPECT_EQ(
      entries(dict({text("o"), ordered, text("d"), defaults, text("c"), counter, text("x"), other})),
      (std::vector<std::string>{"o.w=tensor(o)(w)", "d.w=tensor(d)(w)", "c.w=object(c)(w)", "x=object(x)"}));
}

TEST_F(FlatStates, EmptyDictsAreDroppedAndNamedOrKept) {
  const Value root = dict({text("s"), dict({text("e"), arena_.dict()}), text("w"), tensor()});
  EXPECT_EQ(entries(root), std::vector<std::string>{"w=tensor(w)"});
  EXPECT_EQ(FlatState(arena_, root, kRoom, EmptyDicts::drop).dropped(), std::vector<std::string>{"s.e"});
  EXPECT_EQ(entries(root, EmptyDicts::keep), (std::vector<std::string>{"s.e=object(s)(e)", "w=tensor(w)"}));
  EXPECT_TRUE(entries(arena_.dict()).empty());
}

TEST_F(FlatStates, WhatHasNoNamesIsRefused) {
  EXPECT_EQ(refusal(tensor()).kind(), ErrorKind::unsupported);
  EXPECT_TRUE(contains(refusal(tensor()), "one tensor without a name"));
  EXPECT_EQ(refusal(list({tensor()})).kind(), ErrorKind::unsupported);
  EXPECT_EQ(refusal(dict({arena_.real(1.5), tensor()})).kind(), ErrorKind::unsupported);
  const Value twice = dict({text("a.b"), tensor(), text("a"), dict({text("b"), tensor()})});
  EXPECT_TRUE(contains(refusal(twice), "'a.b'"));
  EXPECT_EQ(refusal(twice).kind(), ErrorKind::unsupported);
}

TEST_F(FlatStates, ValuesThatHoldThemselvesAreDamage) {
  const Value root = arena_.dict(), items = arena_.list();
  arena_.set_item(root, text("r"), root);
  EXPECT_EQ(refusal(root).kind(), ErrorKind::corrupt);
  arena_.append(items, items);
  EXPECT_EQ(refusal(dict({text("l"), items})).kind(), ErrorKind::corrupt);
}

TEST_F(FlatStates, WhatUnfoldsToMoreThanThePickleIsDamage) {
  Value shared = dict({text("a"), tensor(), text("b"), tensor()});
  for (int level = 0; level < 40; ++level) shared = dict({text("a"), shared, text("b"), shared});
  EXPECT_EQ(refusal(shared).kind(), ErrorKind::corrupt);
  const Value long_name =
      dict({text(std::string(2000, 'x')), dict({text("a"), tensor(), text("b"), tensor()})});
  EXPECT_EQ(refusal(long_name, 200).kind(), ErrorKind::corrupt);
  EXPECT_EQ(entries(long_name).size(), 2u);
}

}  // namespace
}  // namespace cairn::torch_file
