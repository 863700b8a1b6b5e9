// SPDX-License-Identifier: BSD-3-Clause
#include "engine/small_items.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/fail.hpp"
#include "failure_of.hpp"

namespace cairn {
namespace {

constexpr std::uint64_t kFileBytes = 1 << 20;

std::byte byte_at(std::uint32_t file, std::uint64_t at) {
  return static_cast<std::byte>((at * 131 + at / 251 + file) % 251);
}

/// Files made of numbered bytes, which may end early or have bytes that cannot be read; the reads are noted.
class NumberedFiles : public Source {
 public:
  NumberedFiles() {
    for (int i = 0; i < 10; ++i)
      catalog_.add_tensor(catalog_.add_string("t" + std::to_string(i)), DType::uint8, {});
  }
  const Catalog& catalog() const override { return catalog_; }
  std::optional<FileRange> small_item(std::uint64_t) const override { return std::nullopt; }
  std::unique_ptr<ItemLocator> item_locator() override { return nullptr; }
  std::shared_ptr<const ChunkPlace> locate(const TensorInfo&, std::uint64_t) override { return nullptr; }
  void read(std::uint32_t file, std::uint64_t at, std::span<std::byte> into) override {
    reads.push_back({file, at, into.size()});
    if (at + into.size() > end) fail_corrupt("short read");
    if (at <= bad && bad < at + into.size()) fail(ErrorKind::io, "bad sector");
    for (std::size_t i = 0; i < into.size(); ++i) into[i] = byte_at(file, at + i);
  }
  std::uint64_t copy(std::uint32_t, std::uint64_t, std::uint64_t, File&, std::uint64_t) override { return 0; }
  std::uint64_t read_bytes() const override { return 0; }

  std::uint64_t end = kFileBytes, bad = kFileBytes;
  std::vector<FileRange> reads;

 private:
  Catalog catalog_;
};

struct Reading {
  NumberedFiles source;
  std::vector<std::byte> buffer = std::vector<std::byte>(1 << 20);
  SmallItems items{source, buffer};
  std::vector<std::uint64_t> visited;  // chunks

  void want(std::uint64_t chunk, FileRange item) {
    items.want({item, chunk, static_cast<std::uint32_t>(chunk), 0});
  }
  void go() {
    items.visit_all([&](const SmallItems::Wanted& wanted, std::span<const std::byte> item) {
      ASSERT_EQ(item.size(), wanted.item.bytes);
      for (std::size_t i = 0; i < item.size(); ++i)
        ASSERT_EQ(item[i], byte_at(wanted.item.file, wanted.item.begin + i));
      visited.push_back(wanted.chunk);
    });
  }
};

using Reads = std::vector<FileRange>;
using Chunks = std::vector<std::uint64_t>;

TEST(SmallItems, NeighboursAreReadTogetherInFileOrder) {
  Reading reading;
  reading.want(0, {1, 500, 100});
  reading.want(1, {0, 300, 100});
  reading.want(2, {1, 400, 100});
  reading.want(3, {0, 100, 200});
  reading.go();
  EXPECT_EQ(reading.visited, (Chunks{3, 1, 2, 0}));
  EXPECT_EQ(reading.source.reads, (Reads{{0, 100, 300}, {1, 400, 200}}));
}

TEST(SmallItems, AGapIsReadUpToItsLimit) {
  for (const std::uint64_t gap : {kMaxItemGap - 1, kMaxItemGap, kMaxItemGap + 1}) {
    Reading reading;
    reading.want(0, {0, 0, 100});
    reading.want(1, {0, 100 + gap, 50});
    reading.go();
    EXPECT_EQ(reading.visited, (Chunks{0, 1}));
    EXPECT_EQ(reading.source.reads.size(), gap <= kMaxItemGap ? 1u : 2u) << gap;
  }
}

TEST(SmallItems, AReadIsBoundedByItsLimitAndByTheBuffer) {
  for (const std::uint64_t room : {std::uint64_t{1} << 20, std::uint64_t{65536}}) {
    Reading reading;
    SmallItems items(reading.source, std::span(reading.buffer).first(room));
    for (std::uint64_t i = 0; i < 100; ++i) items.want({{0, i * 5000, 5000}, i, 0, 0});
    std::size_t visits = 0;
    items.visit_all([&](const auto&, auto) { ++visits; });
    EXPECT_EQ(visits, 100u);
    const std::uint64_t each = std::min(room, kMaxMergedBytes) / 5000;
    EXPECT_EQ(reading.source.reads.size(), (100 + each - 1) / each);
    for (const FileRange& read : reading.source.reads) EXPECT_LE(read.bytes, room);
  }
}

TEST(SmallItems, AnItemBeyondTheLimitOfAReadIsReadAlone) {
  Reading reading;
  reading.want(0, {0, 0, 100});
  reading.want(1, {0, 100, kMaxMergedBytes + 1});
  reading.want(2, {0, 101 + kMaxMergedBytes, 100});
  reading.go();
  EXPECT_EQ(reading.source.reads.size(), 3u);
}

TEST(SmallItems, TheLastItemMayEndWithItsFile) {
  Reading reading;
  reading.want(0, {0, kFileBytes - 300, 200});
  reading.want(1, {0, kFileBytes - 100, 100});
  reading.go();
  EXPECT_EQ(reading.source.reads, (Reads{{0, kFileBytes - 300, 300}}));
}

TEST(SmallItems, AChunkIsGivenOnceForEachPartThatWantsIt) {
  Reading reading;
  for (const std::uint32_t part : {2u, 1u, 2u, 1u}) reading.items.want({{0, 10, 20}, 7, 7, part});
  std::vector<std::uint32_t> parts;
  reading.items.visit_all([&](const SmallItems::Wanted& wanted, auto) { parts.push_back(wanted.part); });
  EXPECT_EQ(parts, (std::vector<std::uint32_t>{1, 2}));
  reading.go();
  EXPECT_TRUE(reading.visited.empty());  // wanted no more
}

TEST(SmallItems, TheItemThatCannotBeReadIsNamedAmongThoseReadTogether) {
  Reading reading;
  reading.source.bad = 250;
  for (std::uint64_t i = 0; i < 5; ++i) reading.want(i, {0, i * 100, 100});
  const Error error = failure_of([&] { reading.go(); });
  EXPECT_EQ(error.kind(), ErrorKind::io);
  EXPECT_TRUE(contains(error, "'t2'")) << error.what();
  EXPECT_TRUE(contains(error, "bad sector"));
  EXPECT_EQ(reading.visited, (Chunks{0, 1}));
}

TEST(SmallItems, AnItemThatTheFileCutsOffIsNamed) {
  Reading reading;
  reading.source.end = 499;
  for (std::uint64_t i = 0; i < 5; ++i) reading.want(i, {0, i * 100, 100});
  const Error error = failure_of([&] { reading.go(); });
  EXPECT_EQ(error.kind(), ErrorKind::corrupt);
  EXPECT_TRUE(contains(error, "'t4'")) << error.what();
}

TEST(SmallItems, AGapThatCannotBeReadHurtsNobody) {
  Reading reading;
  reading.source.bad = 150;
  reading.want(0, {0, 0, 100});
  reading.want(1, {0, 200, 100});
  reading.go();
  EXPECT_EQ(reading.visited, (Chunks{0, 1}));
}

}  // namespace
}  // namespace cairn
