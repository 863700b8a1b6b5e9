// SPDX-License-Identifier: BSD-3-Clause
#include "engine/record_pieces.hpp"

#include <algorithm>
#include <tuple>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"
#include "base/crc32.hpp"
#include "base/fail.hpp"

namespace cairn {

std::vector<RecordPiece> join_pieces(std::vector<RecordPiece> pieces) {
  std::ranges::sort(pieces, {}, [](const RecordPiece& p) { return std::tuple(p.record, p.begin); });
  std::vector<RecordPiece> joined;
  for (const RecordPiece& piece : pieces) {
    if (!joined.empty() && joined.back().record == piece.record &&
        joined.back().begin + joined.back().bytes == piece.begin) {
      joined.back().crc = crc32_combine(joined.back().crc, piece.crc, piece.bytes);
      joined.back().bytes += piece.bytes;
    } else {
      joined.push_back(piece);
    }
  }
  return joined;
}

std::vector<std::byte> encode_pieces(std::span<const RecordPiece> pieces) {
  ByteWriter out;
  for (const RecordPiece& piece : pieces) {
    out.write(piece.record);
    out.write(piece.begin);
    out.write(piece.bytes);
    out.write(piece.crc);
  }
  return out.take();
}

std::vector<RecordPiece> decode_pieces(std::span<const std::byte> bytes) {
  std::vector<RecordPiece> pieces;
  ByteReader in(bytes, "record pieces");
  while (!in.at_end()) {
    const auto record = in.read<std::uint64_t>(), begin = in.read<std::uint64_t>(),
               size = in.read<std::uint64_t>();
    pieces.push_back({record, begin, size, in.read<std::uint32_t>()});
  }
  return pieces;
}

std::vector<std::uint32_t> record_crcs(std::vector<RecordPiece> pieces,
                                       std::span<const std::uint64_t> record_bytes) {
  std::vector<std::uint32_t> crcs(record_bytes.size(), 0);
  std::vector<bool> done(record_bytes.size(), false);
  for (const RecordPiece& piece : join_pieces(std::move(pieces))) {
    const bool whole =
        piece.record < crcs.size() && piece.begin == 0 && piece.bytes == record_bytes[piece.record];
    if (!whole || done[piece.record]) {
      fail(ErrorKind::io, "record {}: bytes {} to {} were written, exactly the whole record expected",
           piece.record, piece.begin, piece.begin + piece.bytes);
    }
    crcs[piece.record] = piece.crc;
    done[piece.record] = true;
  }
  for (std::size_t i = 0; i < done.size(); ++i) {
    if (!done[i] && record_bytes[i] > 0)
      fail(ErrorKind::io, "record {}: none of its {} bytes was written", i, record_bytes[i]);
  }
  return crcs;
}

}  // namespace cairn
