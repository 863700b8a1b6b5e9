// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>
#include <zlib.h>

#include <limits>
#include <random>
#include <vector>

#include "base/byte_reader.hpp"
#include "base/checked.hpp"
#include "base/crc32.hpp"
#include "failure_of.hpp"

namespace cairn {
namespace {

std::vector<std::byte> random_bytes(std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(count) + 1);
  std::vector<std::byte> bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

std::uint32_t zlibs(std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(
      ::crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

TEST(Crc32, IsZlibsForEveryLengthAndCut) {
  for (const std::size_t length : {0, 1, 7, 8, 15, 16, 17, 63, 64, 65, 255, 4096, 100001}) {
    const auto bytes = random_bytes(length);
    const std::uint32_t whole = zlibs(bytes);
    EXPECT_EQ(crc32(bytes), whole) << length;
    for (const std::size_t cut : {std::size_t{0}, length / 3, length}) {
      const auto a = std::span(bytes).first(cut), b = std::span(bytes).subspan(cut);
      EXPECT_EQ(crc32(b, crc32(a)), whole) << length << ' ' << cut;
      EXPECT_EQ(crc32_combine(crc32(a), crc32(b), b.size()), whole) << length << ' ' << cut;
    }
  }
}

TEST(Crc32, CombinesAcrossFourGibibytes) {
  // Zeros appended twice 2^32 + 5 at a time are zeros appended once.
  constexpr std::uint64_t length = (std::uint64_t{1} << 32) + 5;
  const std::uint32_t zeros = [] {
    std::uint32_t crc = 0;
    std::uint64_t have = 0;
    const std::vector<std::byte> block(1 << 16);
    const std::uint32_t of_block = crc32(block);
    while (have + block.size() <= length) {
      crc = crc32_combine(crc, of_block, block.size());
      have += block.size();
    }
    return crc32(std::span(block).first(length - have), crc);
  }();
  const std::uint32_t twice = crc32_combine(zeros, zeros, length);
  EXPECT_EQ(crc32_combine(crc32_combine(7, zeros, length), zeros, length),
            crc32_combine(7, twice, 2 * length));
}

TEST(ByteReader, NeverReadsPastTheEnd) {
  const auto bytes = random_bytes(9);
  ByteReader reader(bytes, "input");
  reader.read<std::uint64_t>();
  const Error error = failure_of([&] { reader.read<std::uint16_t>(); });
  EXPECT_EQ(error.kind(), ErrorKind::corrupt);
  EXPECT_TRUE(contains(error, "input"));
  EXPECT_EQ(reader.remaining(), 1u);  // A failed read moves nothing.
  EXPECT_THROW(reader.bytes(std::numeric_limits<std::uint64_t>::max()), Error);
  reader.skip(1);
  EXPECT_TRUE(reader.at_end());
  EXPECT_TRUE(reader.text(0).empty());
}

TEST(Checked, OverflowIsCorruptNeverAWrap) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(checked_add<std::int64_t>(most, 0, "x"), most);
  EXPECT_EQ(failure_of([&] { checked_add<std::int64_t>(most, 1, "x"); }).kind(), ErrorKind::corrupt);
  EXPECT_EQ(failure_of([&] {
              checked_mul<std::uint64_t>(std::uint64_t{1} << 33, std::uint64_t{1} << 31, "x");
            }).kind(),
            ErrorKind::corrupt);
}

}  // namespace
}  // namespace cairn
