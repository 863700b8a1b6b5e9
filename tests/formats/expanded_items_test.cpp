// SPDX-License-Identifier: BSD-3-Clause
#include "formats/dcp/expanded_items.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "cairn/error.hpp"
#include "failure_of.hpp"
#include "storage/forwarding.hpp"

#ifdef CAIRN_HAVE_ZSTD
#include <zstd.h>

namespace cairn::dcp {
namespace {

Bytes numbered(std::size_t bytes, std::uint32_t seed = 1) {
  std::mt19937 random(seed);
  Bytes content(bytes);
  for (auto& one : content) one = static_cast<std::byte>(random() & 63);
  return content;
}

Bytes compressed(const Bytes& content, int window_log = 0) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);  // as torch's stream writer leaves it
  if (window_log != 0) ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
  Bytes stream(ZSTD_compressBound(content.size()));
  ZSTD_outBuffer out{stream.data(), stream.size(), 0};
  ZSTD_inBuffer in{content.data(), content.size(), 0};
  ZSTD_compressStream2(context, &out, &in, ZSTD_e_continue);  // it does not know how much comes
  while (ZSTD_compressStream2(context, &out, &in, ZSTD_e_end) != 0) {
  }
  stream.resize(out.pos);
  ZSTD_freeCCtx(context);
  return stream;
}

Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

ZstdStream::Read reading(const Bytes& stream) {
  return [&stream](std::uint64_t at, std::span<std::byte> into) {
    ASSERT_LE(at + into.size(), stream.size());
    std::memcpy(into.data(), stream.data() + at, into.size());
  };
}

Bytes expanded(const Bytes& stream, std::size_t step) {
  ZstdStream from(reading(stream), stream.size(), "item");
  Bytes all, piece(step);
  for (;;) {
    const std::size_t count = from.next(piece);
    all.insert(all.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(count));
    if (count < step) break;
  }
  EXPECT_EQ(from.position(), all.size());
  return all;
}

TEST(ZstdStream, GivesWhatWasCompressedInStepsOfAnySize) {
  for (const std::size_t bytes : {0, 1, 1000, 300'000}) {
    const Bytes content = numbered(bytes), stream = compressed(content);
    for (const std::size_t step : {1000, 131072, 1 << 20})
      EXPECT_EQ(expanded(stream, step), content) << bytes;
  }
}

TEST(ZstdStream, FramesFollowOnEachOther) {
  const Bytes a = numbered(300'000, 1), b = numbered(70, 2);
  EXPECT_EQ(expanded(joined({compressed(a), compressed({}), compressed(b)}), 4096), joined({a, b}));
}

TEST(ZstdStream, EveryTruncationIsFound) {
  const Bytes whole = compressed(numbered(200'000));
  for (std::size_t bytes = 0; bytes < whole.size();
       bytes += bytes < 40 || bytes + 40 > whole.size() ? 1 : 5003) {
    const Bytes stream(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes));
    const Error error = failure_of([&] { expanded(stream, 65536); });
    EXPECT_EQ(error.kind(), ErrorKind::corrupt) << bytes;
    EXPECT_NE(error.message().find("is not complete"), std::string::npos) << error.message();
  }
}

TEST(ZstdStream, WhatFollowsTheFramesIsNamed) {
  const Bytes content = numbered(1000), stream = joined({compressed(content), Bytes(9)});
  const Error error = failure_of([&] { expanded(stream, 65536); });
  EXPECT_EQ(error.kind(), ErrorKind::corrupt);
  EXPECT_NE(error.message().find("come 9 bytes that are none"), std::string::npos) << error.message();
}

TEST(ZstdStream, LargeWindowsAreRefused) {
  const Bytes content = numbered(1000);
  EXPECT_EQ(expanded(compressed(content, kMostWindowLog), 65536), content);
  const Bytes stream = compressed(content, kMostWindowLog + 1);
  EXPECT_EQ(failure_of([&] { expanded(stream, 65536); }).kind(), ErrorKind::unsupported);
}

class NoRoom final : public ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;
  std::unique_ptr<File> create_exclusive(const std::string& path) override {
    throw Error(ErrorKind::io, path + ": disk full");
  }
};

class Expanded : public testing::Test {
 protected:
  void add(std::size_t bytes) {
    contents_.push_back(numbered(bytes, static_cast<std::uint32_t>(contents_.size() + 1)));
    streams_.push_back(compressed(contents_.back()));
  }
  ExpandedItems items(FileSystem& files = posix_file_system(), std::uint64_t most = 1 << 30) {
    return ExpandedItems(
        [this, most](std::uint64_t i) {
          return ExpandedItems::Stored{reading(streams_[i]), streams_[i].size(), most,
                                       "item " + std::to_string(i)};
        },
        files);
  }
  void expect_read(ExpandedItems& items, std::uint64_t item, std::uint64_t at, std::uint64_t bytes) {
    Bytes piece(bytes);
    items.read(item, at, piece);
    const auto expected = std::span(contents_[item]).subspan(at, bytes);
    EXPECT_TRUE(std::equal(piece.begin(), piece.end(), expected.begin())) << item << " at " << at;
  }
  // As rows of a target that has a few columns of each row: the item is gone through once for each piece.
  void read_in_columns(ExpandedItems& items, std::uint64_t pieces) {
    constexpr std::uint64_t row = 1 << 20;
    for (std::uint64_t piece = 0; piece < pieces; ++piece) {
      for (std::uint64_t at = piece * (row / pieces); at + row / pieces <= contents_[0].size(); at += row)
        expect_read(items, 0, at, row / pieces);
    }
  }

  std::vector<Bytes> contents_, streams_;
};

TEST_F(Expanded, IsReadByRange) {
  for (const std::size_t bytes : {1, 262'144, 262'145, 5'000'000}) add(bytes);
  ExpandedItems read = items();
  for (std::uint64_t i = 0; i < contents_.size(); ++i) {
    const std::uint64_t size = contents_[i].size();
    EXPECT_EQ(read.size(i), size);
    expect_read(read, i, 0, size);
    expect_read(read, i, size / 2, size - size / 2);
    expect_read(read, i, size / 3, size / 3);
    EXPECT_EQ(failure_of([&] { expect_read(read, i, size - 1, 2); }).kind(), ErrorKind::corrupt);
    EXPECT_EQ(failure_of([&] { expect_read(read, i, size + 1'000'000, 1); }).kind(), ErrorKind::corrupt);
  }
}

TEST_F(Expanded, ReadingOnGoesOnWithTheSameStream) {
  add(40 << 20);
  ExpandedItems read = items();
  for (std::uint64_t at = 0; at < contents_[0].size(); at += 1 << 20) expect_read(read, 0, at, 1 << 20);
  EXPECT_EQ(read.expanded_bytes(), contents_[0].size());
}

TEST_F(Expanded, PiecesThatAreALittleOutOfOrderExpandOnce) {
  add(40 << 20);
  ExpandedItems read = items();
  for (std::uint64_t group = 0; group < contents_[0].size(); group += 8 << 20) {
    for (int i = 8; i-- > 0;) expect_read(read, 0, group + (static_cast<std::uint64_t>(i) << 20), 1 << 20);
  }
  EXPECT_EQ(read.expanded_bytes(), contents_[0].size());
}

TEST_F(Expanded, ThreadsThatTakePiecesInTurnReadTheSame) {
  add(40 << 20);
  ExpandedItems read = items();
  EXPECT_EQ(read.size(0), contents_[0].size());
  std::atomic<std::uint64_t> next{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (std::uint64_t at; (at = next.fetch_add(1 << 20)) < contents_[0].size();)
        expect_read(read, 0, at, 1 << 20);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_LE(read.expanded_bytes(), 5 * contents_[0].size());
}

TEST_F(Expanded, ManyPiecesOfOneItemExpandItAFewTimes) {
  add(24 << 20);
  ExpandedItems read = items();
  EXPECT_EQ(read.size(0), contents_[0].size());
  read_in_columns(read, 32);
  EXPECT_LE(read.expanded_bytes(), 5 * contents_[0].size());
}

TEST_F(Expanded, WithoutRoomForATemporaryFileItOnlyTakesLonger) {
  add(18 << 20);
  NoRoom files(posix_file_system());
  ExpandedItems read = items(files);
  EXPECT_EQ(read.size(0), contents_[0].size());
  read_in_columns(read, 8);
  EXPECT_GT(read.expanded_bytes(), 5 * contents_[0].size());
}

TEST_F(Expanded, MoreThanAnItemCanHaveIsRefusedOnTheWay) {
  contents_.emplace_back(100 << 20);
  streams_.push_back(compressed(contents_.back()));
  EXPECT_LT(streams_[0].size(), 20'000u);
  ExpandedItems read = items(posix_file_system(), 1 << 20);
  const Error error = failure_of([&] { read.size(0); });
  EXPECT_NE(error.message().find("item 0: its"), std::string::npos) << error.message();
  EXPECT_LE(read.expanded_bytes(), 2u << 20);
}

TEST_F(Expanded, AFailureLeavesNothingBehind) {
  add(5'000'000);
  streams_[0].resize(streams_[0].size() / 2);
  ExpandedItems read = items();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(failure_of([&] { read.size(0); }).kind(), ErrorKind::corrupt);
  expect_read(read, 0, 0, 100'000);
}

}  // namespace
}  // namespace cairn::dcp
#endif
