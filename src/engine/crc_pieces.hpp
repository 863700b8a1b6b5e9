// SPDX-License-Identifier: BSD-3-Clause
// CRCs of the pieces in which bytes passed by, and their sum. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cairn {

/// Bytes [begin, begin + bytes) of a whole that is numbered `of`: a record of the output, or the storage of a
/// chunk of the source.
struct CrcPiece {
  std::uint64_t of, begin, bytes;
  std::uint32_t crc;
};

/// Sorts, and joins pieces that touch.
std::vector<CrcPiece> join_pieces(std::vector<CrcPiece> pieces);

std::vector<std::byte> encode_pieces(std::span<const CrcPiece> pieces);
std::vector<CrcPiece> decode_pieces(std::span<const std::byte> bytes);

/// The CRC of each record. Throws io when the pieces don't cover some record exactly once: a byte that nobody
/// wrote must never be published.
std::vector<std::uint32_t> record_crcs(std::vector<CrcPiece> pieces,
                                       std::span<const std::uint64_t> record_bytes);

}  // namespace cairn
