// SPDX-License-Identifier: BSD-3-Clause
// Comparing what was read with the CRCs that the source carries.
#include <algorithm>

#include "base/crc32.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "engine/window_filler.hpp"

namespace cairn {
namespace {

void compare(const Catalog& catalog, const TensorInfo& tensor, std::uint64_t chunk, const ChunkPlace& place,
             std::uint32_t found) {
  if (found == place.storage_crc) return;
  fail_corrupt("'{}': chunk {} in {} at byte {}: its {} bytes of data have CRC-32 {:08x}, {:08x} expected",
               escape_name(catalog.name(tensor)), to_string(catalog.box(tensor, catalog.chunks()[chunk])),
               escape_name(catalog.files()[place.file]), place.storage_begin, place.storage_bytes, found,
               place.storage_crc);
}

const TensorInfo& tensor_of(const Catalog& catalog, std::uint64_t chunk) {
  const auto after = std::ranges::upper_bound(catalog.tensors(), chunk, {}, &TensorInfo::first_chunk);
  return *(after - 1);  // tensors without chunks share first_chunk with the next one, which comes last
}

}  // namespace

void WindowFiller::compare_at_once(const TensorInfo& tensor, std::uint64_t chunk, const ChunkPlace& place) {
  std::uint32_t crc = 0;
  for (std::uint64_t at = 0; at < place.storage_bytes;) {
    const auto piece = scratch_.first(std::min<std::uint64_t>(scratch_.size(), place.storage_bytes - at));
    source_.read(place, place.storage_begin + at, piece);
    crc = crc32(piece, crc);
    at += piece.size();
  }
  compare(source_.catalog(), tensor, chunk, place, crc);
  passed_->verified_bytes += place.storage_bytes;
}

std::vector<CrcPiece> compare_storages(Source& source, std::vector<CrcPiece> pieces,
                                       std::uint64_t& verified_bytes) {
  std::vector<CrcPiece> rest;
  for (const CrcPiece& piece : join_pieces(std::move(pieces))) {
    const TensorInfo& tensor = tensor_of(source.catalog(), piece.of);
    const auto place = piece.begin == 0 ? source.locate(tensor, piece.of) : nullptr;
    if (!place || place->storage_bytes != piece.bytes) {
      rest.push_back(piece);
      continue;
    }
    compare(source.catalog(), tensor, piece.of, *place, piece.crc);
    verified_bytes += piece.bytes;
  }
  return rest;
}

}  // namespace cairn
