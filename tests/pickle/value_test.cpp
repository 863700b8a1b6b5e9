// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "failure_of.hpp"
#include "pickle/globals.hpp"
#include "pickle/golden.hpp"
#include "pickle/python2_names.hpp"

namespace cairn::pickle {
namespace {

TEST(PickleValue, IntegersOfAnyWidthComeBack) {
  Arena arena;
  constexpr std::int64_t wide = std::int64_t{1} << 54;
  for (const std::int64_t value :
       {std::int64_t{0}, std::int64_t{-1}, wide - 1, wide, -wide, -wide - 1,
        std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
    EXPECT_EQ(arena.as_integer(arena.integer(value)), value);
    const auto bytes = std::bit_cast<std::array<char, 8>>(value);
    EXPECT_EQ(arena.as_integer(arena.big_integer({bytes.data(), 8})), value);
  }
  EXPECT_EQ(arena.as_integer(arena.big_integer({})), 0);
  EXPECT_EQ(arena.as_integer(arena.big_integer("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")), -1);
  const Value big = arena.big_integer("\0\0\0\0\0\0\0\x80\0\0"s);
  EXPECT_EQ(big.kind(), Kind::big_integer);
  EXPECT_EQ(arena.text(big), "\0\0\0\0\0\0\0\x80\0"s);
}

TEST(PickleValue, OnlyShortTextsAreSingletons) {
  Arena arena;
  for (const std::string_view text : {"", "a", "\xc3\xbf"}) {
    EXPECT_EQ(arena.string(text), arena.string(text));
    EXPECT_EQ(arena.text(arena.string(text)), text);
  }
  for (const std::string_view text : {"ab", "\xc4\x80"}) {
    EXPECT_NE(arena.string(text), arena.string(text));
    EXPECT_EQ(arena.text(arena.string(text)), text);
  }
  EXPECT_EQ(arena.text(arena.bytes("\xff")), "\xff");
  EXPECT_EQ(arena.bytes("\xff"), arena.bytes("\xff"));
  EXPECT_NE(arena.bytearray(""), arena.bytearray(""));
}

TEST(PickleValue, ContainersGrowAndKeepTheirOrder) {
  Arena arena;
  const Value list = arena.list(), dict = arena.dict();
  for (int i = 0; i < 5000; ++i) {
    arena.append(list, arena.integer(i));
    arena.set_item(dict, arena.integer(i), list);
  }
  ASSERT_EQ(arena.items(list).size(), 5000u);
  ASSERT_EQ(arena.items(dict).size(), 10000u);
  for (std::size_t i = 0; i < 5000; ++i) {
    EXPECT_EQ(arena.items(list)[i], arena.integer(static_cast<int>(i)));
    EXPECT_EQ(arena.items(dict)[2 * i], arena.integer(static_cast<int>(i)));
    EXPECT_EQ(arena.items(dict)[2 * i + 1], list);
  }
}

TEST(PickleValue, ViewsMayBeArgumentsOfTheCallThatMovesThem) {
  Arena arena;
  const Value list = arena.list();
  for (int i = 0; i < 3; ++i) arena.append(list, arena.integer(i));
  for (int i = 0; i < 12; ++i) arena.append_all(list, arena.items(list));
  EXPECT_EQ(arena.items(list).size(), 3u << 12);
  EXPECT_EQ(arena.items(list).back(), arena.integer(2));
  Value text = arena.string("twelve bytes");
  for (int i = 0; i < 1000; ++i) text = arena.string(arena.text(text));
  EXPECT_EQ(arena.text(text), "twelve bytes");
}

TEST(PickleValue, GlobalsAreOnePerName) {
  Arena arena;
  for (int i = 0; i < 1000; ++i) arena.global("module", "name" + std::to_string(i));
  EXPECT_EQ(arena.global("module", "name7"), arena.global("module", "name7"));
  EXPECT_NE(arena.global("module", "name7"), arena.global("modulen", "ame7"));
  EXPECT_TRUE(arena.is_global(*arena.find_global("module", "name999"), "module", "name999"));
  EXPECT_FALSE(arena.find_global("module", "name1000"));
}

TEST(PickleValue, FindGivesTheLastItemWithTheKey) {
  Arena arena;
  const Value dict = read_text(arena, "\x80\x02}(X\x03\0\0\0keyK\x01K\x05K\x02X\x03\0\0\0keyK\x03u."s);
  EXPECT_EQ(arena.find(dict, "key"), arena.integer(3));
  EXPECT_EQ(arena.find(dict, "kez"), std::nullopt);
}

TEST(PickleValue, AskingForTheWrongKindIsCorrupt) {
  Arena arena;
  for (const auto& ask :
       {+[](Arena& a) { a.items(a.integer(1)); }, +[](Arena& a) { a.text(a.none()); },
        +[](Arena& a) { a.as_integer(a.boolean(true)); }, +[](Arena& a) { a.object_view(a.list()); },
        +[](Arena& a) { a.append(a.none(), {}); }, +[](Arena& a) { a.persistent_id(a.tuple({})); }}) {
    EXPECT_EQ(failure_of([&] { ask(arena); }).kind(), ErrorKind::corrupt);
  }
}

TEST(PickleValue, PythonTwoNamesAreTranslatedBothWays) {
  EXPECT_EQ(to_python3({"__builtin__", "xrange"}), (QualifiedName{"builtins", "range"}));
  EXPECT_EQ(to_python3({"__builtin__", "anything"}), (QualifiedName{"builtins", "anything"}));
  EXPECT_EQ(to_python3({"copy_reg", "_reconstructor"}), (QualifiedName{"copyreg", "_reconstructor"}));
  EXPECT_EQ(to_python3({"torch", "Size"}), (QualifiedName{"torch", "Size"}));
  EXPECT_EQ(to_python2({"builtins", "int"}), (QualifiedName{"__builtin__", "long"}));
  EXPECT_EQ(to_python2({"builtins", "BrokenPipeError"}), (QualifiedName{"exceptions", "OSError"}));
  Arena arena;  // protocol 3 and above write Python 3 names
  EXPECT_TRUE(arena.is_global(read_text(arena,
                                        "\x80\x03"
                                        "ccopy_reg\nx\n."s),
                              "copy_reg", "x"));
  EXPECT_TRUE(arena.is_global(read_text(arena,
                                        "\x80\x02"
                                        "ccopy_reg\nx\n."s),
                              "copyreg", "x"));
}

TEST(PickleGlobals, AreThoseThatTheProtocol2PickleNames) {
  Arena arena;
  const Value root = arena.list();
  for (const Value item :
       {arena.bytes("x"), arena.set(), arena.bytes(""), arena.global("m", "A.b"), arena.set()}) {
    arena.append(root, item);
  }
  std::vector<std::string> names;
  for (const auto& [module, name] : collect_globals(arena, root)) {
    names.push_back(std::string(module) + " " + std::string(name));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"_codecs encode", "builtins set", "builtins bytes",
                                             "builtins getattr", "m A.b"}));
}

TEST(PickleGlobals, TorchTrustsItsOwnListOnly) {
  EXPECT_TRUE(torch_safe_global("collections", "OrderedDict"));
  EXPECT_TRUE(torch_safe_global("torch._utils", "_rebuild_tensor_v2"));
  EXPECT_TRUE(torch_safe_global("torch", "float8_e4m3fn"));
  EXPECT_TRUE(torch_safe_global("torch.storage", "UntypedStorage"));
  EXPECT_FALSE(torch_safe_global("builtins", "frozenset"));
  EXPECT_FALSE(torch_safe_global("os", "system"));
}

std::vector<std::string> unsafe(const std::string& pickle) {
  Arena arena;
  const Value root = read_text(arena, pickle);
  return unsafe_parts(arena, root);
}

TEST(PickleGlobals, UnsafePartsSayWhatWeightsOnlyLoadingRefuses) {
  EXPECT_TRUE(unsafe(golden("ordered_2.p2.pkl")).empty());
  EXPECT_TRUE(unsafe(golden("shared.p2.pkl")).empty());
  EXPECT_EQ(unsafe(golden("ordered_0.p2.pkl")), std::vector<std::string>{});
  EXPECT_EQ(unsafe("\x80\x02"
                   "cm\nC\n)\x81}b."s),
            (std::vector<std::string>{"state of m.C", "global m.C"}));
  EXPECT_EQ(unsafe("\x80\x02K\x07Q."s), std::vector<std::string>{});
  EXPECT_EQ(unsafe("\x80\x02X\x05\0\0\0sevenQ."s),
            std::vector<std::string>{"a persistent id of kind string"});
  EXPECT_EQ(unsafe("\x80\x02"
                   "ctorch\nSize\n)RK\x01"
                   "a."s),
            std::vector<std::string>{"list items of torch.Size"});
}

}  // namespace
}  // namespace cairn::pickle
