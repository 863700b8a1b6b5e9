// SPDX-License-Identifier: BSD-3-Clause
// Damaged and malicious pickles: an Error of a named kind, in bounded memory.
#include <gtest/gtest.h>

#include "failure_of.hpp"
#include "pickle/globals.hpp"
#include "pickle/golden.hpp"

namespace cairn::pickle {
namespace {

Error refused(std::string_view pickle) {
  Arena arena;
  return failure_of([&] { read_text(arena, pickle); });
}

void expect_corrupt(std::string_view pickle, std::string_view words) {
  const Error error = refused(pickle);
  EXPECT_EQ(error.kind(), ErrorKind::corrupt) << error.what();
  EXPECT_TRUE(contains(error, words)) << error.what();
}

void expect_unsupported(std::string_view pickle, std::string_view words) {
  const Error error = refused(pickle);
  EXPECT_EQ(error.kind(), ErrorKind::unsupported) << error.what();
  EXPECT_TRUE(contains(error, words)) << error.what();
}

std::string repeated(std::string_view text, std::size_t times) {
  std::string result;
  for (std::size_t i = 0; i < times; ++i) result += text;
  return result;
}

TEST(PickleHostile, EveryTruncationIsCorrupt) {
  for (const auto* name : {"shared.p2.pkl", "cycles.p4.pkl", "bytes.p5.pkl", "objects.p3.pkl"}) {
    const std::string pickle = golden(name);
    ASSERT_FALSE(pickle.empty());
    for (std::size_t size = 0; size < pickle.size(); ++size) {
      EXPECT_EQ(refused(pickle.substr(0, size)).kind(), ErrorKind::corrupt) << name << " cut to " << size;
    }
  }
}

TEST(PickleHostile, AnyChangedByteIsReadOrRefused) {
  for (const auto* name : {"enums.p2.pkl", "nested_names.p4.pkl"}) {
    const std::string pickle = golden(name);
    for (std::size_t at = 0; at < pickle.size(); ++at) {
      for (int value = 0; value < 256; ++value) {
        std::string changed = pickle;
        changed[at] = static_cast<char>(value);
        try {
          rewritten(changed);
        } catch (const Error&) {
        }
      }
    }
  }
}

TEST(PickleHostile, BytesAfterStopAreCorruptUnlessTheCallerTakesTheLength) {
  expect_corrupt("\x80\x02N.rest"s, "4 bytes after the end");
  Arena arena;
  std::size_t consumed = 0;
  EXPECT_EQ(read(arena, as_bytes("\x80\x02N.rest"s), "test", {}, &consumed), arena.none());
  EXPECT_EQ(consumed, 4u);
}

TEST(PickleHostile, LengthsBeyondTheInputAreCorrupt) {
  expect_corrupt("\x80\x02X\xff\xff\xff\xff."s, "4294967295 bytes expected");
  expect_corrupt("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff."s, "bytes expected");
  expect_corrupt("\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xff."s, "a frame of");
  expect_corrupt("\x80\x02\x8b\xff\xff\xff\xff."s, "negative length");
}

TEST(PickleHostile, TheStackIsNeverReadBelowItsBottomOrAMark) {
  for (const std::string& ops : {"."s,
                                 "0."s,
                                 "a."s,
                                 "]a."s,
                                 "](a."s,
                                 "(\x85."s,
                                 "N(R."s,
                                 "NR."s,
                                 "(1."s,
                                 "1."s,
                                 "e."s,
                                 "]K\x01u."s,
                                 "}(K\x01u."s,
                                 "}K\x01s."s,
                                 "q\x01."s,
                                 "(."s,
                                 "NN."s,
                                 "Q."s,
                                 "b."s,
                                 "\x93."s,
                                 "N\x93."s,
                                 "N\x92."s,
                                 "(K\x01"
                                 "d."s}) {
    expect_corrupt("\x80\x02" + ops, "test: byte");
  }
}

TEST(PickleHostile, TheMemoIsNeverReadWhereNothingWasStored) {
  expect_corrupt("\x80\x02h\x07."s, "memo index 7");
  expect_corrupt("\x80\x02Nr\x05\0\0\0h\x04."s, "memo index 4");
  expect_corrupt("\x80\x02Nr\xff\xff\xff\xff."s, "memo index 4294967295");
}

TEST(PickleHostile, OnlyWhatPythonFillsIsFilled) {
  expect_corrupt(
      "\x80\x02)K\x01"
      "a."s,
      "list or object expected, tuple found");
  expect_corrupt("\x80\x02]K\x01K\x02s."s, "dict or object expected, list found");
  expect_corrupt("\x80\x02]}b."s, "object expected, list found");
  expect_corrupt("\x80\x04](K\x01\x90."s, "set expected, list found");
  expect_corrupt("\x80\x02])R."s, "something callable expected, list found");
  expect_corrupt(
      "\x80\x02"
      "cm\nn\n]R."s,
      "a tuple of arguments expected, list found");
  expect_unsupported(
      "\x80\x02"
      "cm\nn\n)R}b}b."s,
      "changed after its state");
  expect_unsupported(
      "\x80\x02"
      "cm\nn\n)R}bK\x01"
      "a."s,
      "changed after its state");
}

TEST(PickleHostile, OpcodesOutsideTheSetAreNamedWithTheirPlace) {
  expect_unsupported("\x80\x02I1\n."s, "byte 2: opcode 0x49");
  expect_unsupported("\x80\x02(im\nn\n."s, "byte 3: opcode 0x69");
  expect_unsupported("\x80\x05\x97."s, "opcode 0x97");
  expect_unsupported("\x80\x02N2."s, "opcode 0x32");
  expect_unsupported("\x80\x06N."s, "protocol 6");
}

TEST(PickleHostile, TextThatIsNotUtf8IsCorrupt) {
  for (const std::string& text :
       {"\xff"s, "\xc0\x80"s, "\xc3"s, "\xe0\x80\x80"s, "\xf4\x90\x80\x80"s, "a\x80"s}) {
    expect_corrupt("\x80\x02X"s + static_cast<char>(text.size()) + "\0\0\0"s + text + ".", "not UTF-8");
  }
  expect_corrupt(
      "\x80\x02"
      "cm\xff\nn\n."s,
      "not UTF-8");
  expect_corrupt(
      "\x80\x02"
      "cm\nn"s,
      "does not end");
}

TEST(PickleHostile, BytesThatAreNotLatin1AreCorrupt) {
  expect_corrupt(
      "\x80\x02"
      "c_codecs\nencode\nX\x02\0\0\0\xc4\x80X\x06\0\0\0latin1\x86R."s,
      "above U+00FF");
}

TEST(PickleHostile, ADroppedCallIsUnsupported) {
  expect_unsupported("\x80\x02Ncm\nn\n)R0."s, "result of a call is dropped");
  // Not even when the memo gives something else next.
  expect_unsupported("\x80\x02(cm\nn\n)Rq\0cm\nset\n)R0h\0t."s, "result of a call is dropped");
}

TEST(PickleHostile, RepeatingAListThroughTheMemoDoesNotCopyItAgainAndAgain) {
  const std::string list = "]q\0("s + repeated("N", 10'000) + "e";
  const std::string bomb =
      "\x80\x02"s + list + "c__builtin__\nset\nq\x01" + repeated("h\1h\0\x85R"s, 5'000) + ".";
  expect_corrupt(bomb, "by repetition");
}

// 2^100 leaves by doubling: 100 lists in the arena, and as many in the pickle.
TEST(PickleHostile, DoublingThroughTheMemoStaysSmall) {
  std::string lists = "]q"s + '\0';
  for (int i = 0; i < 100; ++i) {
    const auto index = static_cast<char>(i), next = static_cast<char>(i + 1);
    lists += "](h"s + index + "h" + index + "eq" + next;
  }
  const std::string pickle = "\x80\x02(" + lists + "t.";
  Arena arena;
  const Value root = read_text(arena, pickle);
  EXPECT_LT(arena.memory_bytes(), 100 * pickle.size());
  EXPECT_LT(written(arena, root).size(), 4 * pickle.size());
  EXPECT_TRUE(collect_globals(arena, root).empty());
}

TEST(PickleHostile, DeepNestingIsReadAndLookedThroughButNotWritten) {
  Arena arena;
  const Value root = read_text(arena, "\x80\x02" + repeated("]", 200'000) + repeated("a", 199'999) + ".");
  EXPECT_TRUE(collect_globals(arena, root).empty());
  const Error error = failure_of([&] { written(arena, root); });
  EXPECT_EQ(error.kind(), ErrorKind::unsupported);
  EXPECT_TRUE(contains(error, "1000 levels"));
  expect_unsupported("\x80\x02" + repeated("(", 20'000), "open marks");
}

TEST(PickleHostile, APickleThatWouldGrowWithoutBoundIsNotWritten) {
  // A tuple of 300 lists that all hold the tuple: each level of recursion writes the rest of it again.
  Arena arena;
  std::vector<Value> items(300);
  for (auto& item : items) item = arena.list();
  items.resize(3000, arena.real(1));
  const Value tuple = arena.tuple(items);
  for (std::size_t i = 0; i < 300; ++i) arena.append(items[i], tuple);
  const Error error = failure_of([&] { written(arena, tuple); });
  EXPECT_EQ(error.kind(), ErrorKind::unsupported);
}

TEST(PickleHostile, NamesThatWouldForgeOpcodesAreNotWritten) {
  Arena arena;
  const Value forged = read_text(arena, "\x80\x04\x8c\x07m\ni.\nos\x8c\x01n\x93."s);
  const Error error = failure_of([&] { written(arena, forged); });
  EXPECT_EQ(error.kind(), ErrorKind::unsupported);
}

// Each prefix of such a name becomes a global of its own.
TEST(PickleHostile, NestedNamesOfEndlessLengthAreNotWritten) {
  Arena arena;
  const std::string name = std::string(100000, 'A') + repeated(".a", 900);
  const Value global = arena.global("module", name);
  EXPECT_EQ(failure_of([&] { written(arena, global); }).kind(), ErrorKind::unsupported);
}

}  // namespace
}  // namespace cairn::pickle
