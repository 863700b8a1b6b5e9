// SPDX-License-Identifier: BSD-3-Clause
// CRCs of the pieces in which records were written, and their sum. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cairn {

/// Bytes [begin, begin + bytes) of a record's payload.
struct RecordPiece {
  std::uint64_t record, begin, bytes;
  std::uint32_t crc;
};

/// Sorts and joins pieces that touch.
std::vector<RecordPiece> join_pieces(std::vector<RecordPiece> pieces);

std::vector<std::byte> encode_pieces(std::span<const RecordPiece> pieces);
std::vector<RecordPiece> decode_pieces(std::span<const std::byte> bytes);

/// The CRC of each of the records. Throws io when the pieces don't cover some record exactly once: a byte
/// that nobody wrote must never be published.
std::vector<std::uint32_t> record_crcs(std::vector<RecordPiece> pieces,
                                       std::span<const std::uint64_t> record_bytes);

}  // namespace cairn
