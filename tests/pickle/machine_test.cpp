// SPDX-License-Identifier: BSD-3-Clause
#include "pickle/machine.hpp"

#include <gtest/gtest.h>

#include "pickle/golden.hpp"

namespace cairn::pickle {
namespace {

TEST(PickleMachine, ReadsThroughAWindowOfAnySize) {
  for (const auto& name : golden_cases()) {
    const std::string pickle = golden(name + ".p2.pkl");
    if (pickle.size() > 100'000) continue;
    for (const std::size_t window : {1, 3, 100}) {
      SCOPED_TRACE(name);
      Arena arena;
      ByteStream in(
          pickle.size(),
          [&](std::uint64_t byte_offset, std::span<std::byte> into) {
            std::memcpy(into.data(), pickle.data() + byte_offset, into.size());
          },
          "test", window);
      const Value root = Machine<Arena>(arena, in, "test", {}).run();
      EXPECT_EQ(written(arena, root), pickle);
    }
  }
}

TEST(PickleMachine, TheArgumentsOfASizeCanBeFetched) {
  Arena arena;
  const std::string pickle =
      "\x80\x04](ctorch\nSize\n\x94K\x03\x85\x94\x85\x94R\x94h\x02h\x02h\x01"
      "e."s;
  ByteStream in(as_bytes(pickle), "test");
  const Value root = Machine<Arena>(arena, in, "test", {.sizes_as_tuples = true}).run();
  const auto items = arena.items(root);
  ASSERT_EQ(items.size(), 4u);
  const Value size = items[0], arguments = items[1];
  ASSERT_EQ(arena.items(size).size(), 1u);
  EXPECT_EQ(arena.items(size)[0], arena.integer(3));
  ASSERT_EQ(arguments.kind(), Kind::tuple);
  ASSERT_EQ(arena.items(arguments).size(), 1u);
  EXPECT_EQ(arena.items(arguments)[0], size);
  EXPECT_EQ(items[2], arguments);
  EXPECT_EQ(items[3], size);
}

TEST(PickleMemo, KeepsHandlesThatNeedMoreThanASlot) {
  const std::vector<Value> small{{},
                                 handle(Kind::persistent, 1),
                                 inline_handle(Kind::integer, (1 << 26) - 1),
                                 handle(Kind::row, (1 << 26) - 1)};
  for (const Value large :
       {handle(Kind::string, 1 << 26), inline_handle(Kind::integer, std::uint64_t{1} << 54)}) {
    Memo memo;
    for (std::size_t i = 0; i < small.size(); ++i) memo.put(2 * i, small[i]);
    for (int wide = 0; wide < 2; ++wide) {
      ASSERT_EQ(memo.size(), 2 * small.size() - 1);
      for (std::size_t i = 0; i < small.size(); ++i) EXPECT_EQ(memo[2 * i], small[i]) << i;
      EXPECT_EQ(memo[1], kNothing);
      memo.put(3, large);
      EXPECT_EQ(memo[3], large);
    }
    memo.put(100, small[1]);
    EXPECT_EQ(memo.size(), 101u);
    EXPECT_EQ(memo[99], kNothing);
    EXPECT_EQ(memo[100], small[1]);
  }
}

}  // namespace
}  // namespace cairn::pickle
