// SPDX-License-Identifier: BSD-3-Clause
#include "engine/crc_pieces.hpp"

#include <algorithm>
#include <tuple>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"
#include "base/crc32.hpp"
#include "base/fail.hpp"

namespace cairn {

std::vector<CrcPiece> join_pieces(std::vector<CrcPiece> pieces) {
  const auto place = [](const CrcPiece& p) { return std::tuple(p.of, p.begin); };
  if (!std::ranges::is_sorted(pieces, {}, place)) std::ranges::sort(pieces, {}, place);
  std::vector<CrcPiece> joined;
  for (const CrcPiece& piece : pieces) {
    if (!joined.empty() && joined.back().of == piece.of &&
        joined.back().begin + joined.back().bytes == piece.begin) {
      joined.back().crc = crc32_combine(joined.back().crc, piece.crc, piece.bytes);
      joined.back().bytes += piece.bytes;
    } else {
      joined.push_back(piece);
    }
  }
  return joined;
}

std::vector<std::byte> encode_pieces(std::span<const CrcPiece> pieces) {
  ByteWriter out;
  for (const CrcPiece& piece : pieces) {
    out.write(piece.of);
    out.write(piece.begin);
    out.write(piece.bytes);
    out.write(piece.crc);
  }
  return out.take();
}

std::vector<CrcPiece> decode_pieces(std::span<const std::byte> bytes) {
  std::vector<CrcPiece> pieces;
  ByteReader in(bytes, "record pieces");
  while (!in.at_end()) {
    const auto of = in.read<std::uint64_t>(), begin = in.read<std::uint64_t>(),
               size = in.read<std::uint64_t>();
    pieces.push_back({of, begin, size, in.read<std::uint32_t>()});
  }
  return pieces;
}

std::vector<std::uint32_t> record_crcs(std::vector<CrcPiece> pieces,
                                       std::span<const std::uint64_t> record_bytes) {
  std::vector<std::uint32_t> crcs(record_bytes.size(), 0);
  std::vector<bool> done(record_bytes.size(), false);
  for (const CrcPiece& piece : join_pieces(std::move(pieces))) {
    const bool whole = piece.of < crcs.size() && piece.begin == 0 && piece.bytes == record_bytes[piece.of];
    if (!whole || done[piece.of]) {
      fail(ErrorKind::io, "record {}: bytes {} to {} were written, exactly the whole record expected",
           piece.of, piece.begin, piece.begin + piece.bytes);
    }
    crcs[piece.of] = piece.crc;
    done[piece.of] = true;
  }
  for (std::size_t i = 0; i < done.size(); ++i) {
    if (!done[i] && record_bytes[i] > 0)
      fail(ErrorKind::io, "record {}: none of its {} bytes was written", i, record_bytes[i]);
  }
  return crcs;
}

}  // namespace cairn
