// SPDX-License-Identifier: BSD-3-Clause
// What is expected here was written by CPython 3.11's pickle.dump at protocol 4.
#include "pickle/frame_writer.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "failure_of.hpp"
#include "pickle/reader.hpp"

namespace cairn::pickle {
namespace {

using namespace std::string_literals;

template <class Write>
std::string written(const Write& write, std::size_t* longest = nullptr) {
  std::string pickle;
  const FrameWriter::Sink sink = [&](std::span<const std::byte> piece) {
    pickle += as_text(piece);
    if (longest != nullptr) *longest = std::max(*longest, piece.size());
  };
  FrameWriter out(sink);
  write(out);
  out.finish();
  return pickle;
}

/// A list of `count` items.
template <class Item>
auto list_of(std::size_t count, const Item& item) {
  return [=](FrameWriter& out) {
    out.value();
    out.memoized(Op::empty_list);
    FrameBatches batches(out, FrameBatches::Of::list, count);
    for (std::size_t i = 0; i < count; ++i) {
      batches.next();
      item(out, i);
    }
    batches.finish();
  };
}

TEST(PickleFrames, IntegersTakeTheShortestForm) {
  constexpr std::int64_t two39 = std::int64_t{1} << 39;
  const std::vector<std::int64_t> numbers{0,
                                          255,
                                          256,
                                          65535,
                                          65536,
                                          2147483647,
                                          2147483648,
                                          -1,
                                          -128,
                                          -129,
                                          -2147483648LL,
                                          -2147483649LL,
                                          two39 - 1,
                                          two39,
                                          -two39,
                                          -two39 - 1,
                                          std::numeric_limits<std::int64_t>::max(),
                                          std::numeric_limits<std::int64_t>::min()};
  const auto pickle =
      written(list_of(numbers.size(), [&](FrameWriter& out, std::size_t i) { out.integer(numbers[i]); }));
  EXPECT_EQ(
      pickle,
      "\x80\x04\x95\x6d\0\0\0\0\0\0\0]\x94(K\0K\xffM\0\x01M\xff\xffJ\0\0\x01\0J\xff\xff\xff\x7f"
      "\x8a\x05\0\0\0\x80\0J\xff\xff\xff\xffJ\x80\xff\xff\xffJ\x7f\xff\xff\xffJ\0\0\0\x80"
      "\x8a\x05\xff\xff\xff\x7f\xff\x8a\x05\xff\xff\xff\xff\x7f\x8a\x06\0\0\0\0\x80\0\x8a\x05\0\0\0\0\x80"
      "\x8a\x06\xff\xff\xff\xff\x7f\xff\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x8a\x08\0\0\0\0\0\0\0\x80"
      "e."s);
}

TEST(PickleFrames, ALongTextStandsBetweenFrames) {
  const std::string text(65536, 'x');
  const auto pickle = written(
      list_of(2, [&](FrameWriter& out, std::size_t i) { out.text(i == 0 ? std::string_view(text) : "y"); }));
  // what is before it is too short for a frame
  EXPECT_TRUE(pickle ==
              "\x80\x04]\x94(X\0\0\x01\0"s + text + "\x95\x07\0\0\0\0\0\0\0\x94\x8c\x01y\x94"s + "e.");
}

TEST(PickleFrames, AFrameEndsBeforeTheFirstValuePast64KiB) {
  const std::vector<std::string> texts{std::string(65535, 'x'), std::string(40000, 'y'),
                                       std::string(40000, 'z')};
  const auto pickle = written(list_of(4, [&](FrameWriter& out, std::size_t i) {
    if (i == 3) return out.integer(1);
    out.text(texts[i]);
  }));
  EXPECT_TRUE(pickle == "\x80\x04\x95\x08\0\x01\0\0\0\0\0]\x94(X\xff\xff\0\0"s + texts[0] + "\x94" +
                            "\x95\x8c\x38\x01\0\0\0\0\0X\x40\x9c\0\0"s + texts[1] + "\x94X\x40\x9c\0\0"s +
                            texts[2] + "\x94\x95\x04\0\0\0\0\0\0\0K\x01"s + "e.");
}

TEST(PickleFrames, MemoNumbersWidenAt256) {
  const auto pickle = written(list_of(1, [&](FrameWriter& out, std::size_t) {
    out.op(Op::mark);
    for (int i = 0; i < 256; ++i) out.text("t");
    out.get(255);
    out.get(256);
    out.memoized(Op::tuple);
  }));
  EXPECT_NE(pickle.find("h\xffj\0\x01\0\0t\x94"s + "a."), std::string::npos);
}

TEST(PickleFrames, BatchesEndAsThePicklers) {
  const auto ops = [](FrameBatches::Of kind, std::size_t count) {
    const auto pickle = written([&](FrameWriter& out) {
      out.value();
      out.memoized(kind == FrameBatches::Of::dict ? Op::empty_dict : Op::empty_list);
      FrameBatches batches(out, kind, count);
      for (std::size_t i = 0; i < count; ++i) {
        batches.next();
        out.none();
        if (kind == FrameBatches::Of::dict) out.none();
      }
      batches.finish();
    });
    // batches of 1000 nones are one 'B' here, the rest is 'n'
    std::string shown = pickle.substr(pickle.find("\x94") + 1);
    const std::string thousand(kind == FrameBatches::Of::dict ? 2000 : 1000, 'N');
    for (std::size_t at; (at = shown.find(thousand)) != std::string::npos;)
      shown.replace(at, thousand.size(), "B");
    return shown;
  };
  using enum FrameBatches::Of;
  EXPECT_EQ(ops(list, 0), ".");
  EXPECT_EQ(ops(list, 1), "Na.");
  EXPECT_EQ(ops(list, 2), "(NNe.");
  EXPECT_EQ(ops(list, 1000), "(Be.");
  EXPECT_EQ(ops(list, 1001), "(Be(Ne.");
  EXPECT_EQ(ops(list, 2000), "(Be(Be.");
  EXPECT_EQ(ops(dict, 0), ".");
  EXPECT_EQ(ops(dict, 1), "NNs.");
  EXPECT_EQ(ops(dict, 2), "(NNNNu.");
  EXPECT_EQ(ops(dict, 1000), "(Bu(u.");
  EXPECT_EQ(ops(dict, 1001), "(Bu(NNu.");
  EXPECT_EQ(ops(dict, 2000), "(Bu(Bu(u.");
}

TEST(PickleFrames, PiecesAreBounded) {
  std::size_t longest = 0;
  const std::string text(65535, 'x');
  const auto pickle = written(list_of(100, [&](FrameWriter& out, std::size_t) { out.text(text); }), &longest);
  EXPECT_LE(longest, std::size_t{129} << 10);
  Arena arena;
  const Value value = read(arena, as_bytes(pickle), "frames");
  ASSERT_EQ(arena.items(value).size(), 100u);
  EXPECT_EQ(arena.text(arena.items(value)[99]), text);
}

TEST(PickleFrames, AnyNumberOfOpcodesFitsBetweenValues) {
  const std::string text(65000, 'x');
  const auto pickle = written([&](FrameWriter& out) {
    out.text(text);
    out.text(text);
    out.memoized(Op::tuple2);
    for (int i = 0; i < 100000; ++i) out.op(Op::tuple1);
  });
  EXPECT_TRUE(pickle.ends_with("\x94\x86\x94" + std::string(100000, '\x85') + "."));
  EXPECT_NE(pickle.find(text + "\x94X\xe8\xfd"), std::string::npos) << "both texts are in one frame";
}

TEST(PickleFrames, TextMustBeUtf8WithSurrogatesOrWithout) {
  const auto one = [](std::string_view text) { return written([&](FrameWriter& out) { out.text(text); }); };
  EXPECT_EQ(one("\xed\xb2\x80"), "\x80\x04\x95\x07\0\0\0\0\0\0\0\x8c\x03\xed\xb2\x80\x94."s);
  const Error error = failure_of([&] { one("a\xff"); });
  EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
  EXPECT_TRUE(contains(error, "a\\xff"));
}

}  // namespace
}  // namespace cairn::pickle
