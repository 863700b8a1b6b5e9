// SPDX-License-Identifier: BSD-3-Clause
#include "engine/crc_pieces.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "base/byte_writer.hpp"
#include "base/crc32.hpp"
#include "failure_of.hpp"

namespace cairn {
namespace {

CrcPiece piece(std::uint64_t of, const std::string& whole, std::uint64_t begin, std::uint64_t bytes) {
  return {of, begin, bytes, crc32(as_bytes(whole).subspan(begin, bytes))};
}

TEST(CrcPieces, PiecesInAnyOrderGiveTheCrcOfTheWhole) {
  std::mt19937 random(1);
  for (int round = 0; round < 100; ++round) {
    std::string whole(1 + random() % 5000, '\0');
    for (char& c : whole) c = static_cast<char>(random());
    std::vector<CrcPiece> pieces;
    for (std::uint64_t at = 0; at < whole.size();) {
      const auto bytes = std::min<std::uint64_t>(1 + random() % 700, whole.size() - at);
      pieces.push_back(piece(0, whole, at, bytes));
      at += bytes;
    }
    std::ranges::shuffle(pieces, random);
    const std::vector<std::uint64_t> sizes{whole.size()};
    EXPECT_EQ(record_crcs(pieces, sizes), (std::vector<std::uint32_t>{crc32(as_bytes(whole))}));
    EXPECT_EQ(join_pieces(decode_pieces(encode_pieces(pieces))).size(), 1u);
  }
}

TEST(CrcPieces, EmptyRecordsNeedNoPiece) {
  const std::vector<std::uint64_t> sizes{0, 3, 0};
  const auto crcs = record_crcs({piece(1, "abc", 0, 3)}, sizes);
  EXPECT_EQ(crcs, (std::vector<std::uint32_t>{0, crc32(as_bytes("abc")), 0}));
}

TEST(CrcPieces, AHoleAnOverlapOrAForeignRecordIsNeverAccepted) {
  const std::vector<std::uint64_t> sizes{6};
  const std::string whole = "abcdef";
  const std::vector<std::vector<CrcPiece>> wrong{{},
                                                 {piece(0, whole, 0, 5)},
                                                 {piece(0, whole, 1, 5)},
                                                 {piece(0, whole, 0, 2), piece(0, whole, 3, 3)},
                                                 {piece(0, whole, 0, 4), piece(0, whole, 3, 3)},
                                                 {piece(0, whole, 0, 6), piece(0, whole, 0, 6)},
                                                 {piece(0, whole, 0, 6), piece(1, whole, 0, 6)}};
  for (const auto& pieces : wrong) {
    EXPECT_EQ(failure_of([&] { record_crcs(pieces, sizes); }).kind(), ErrorKind::io);
  }
}

}  // namespace
}  // namespace cairn
