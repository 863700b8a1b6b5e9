// SPDX-License-Identifier: BSD-3-Clause
#include "engine/storage_crc.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "base/text.hpp"

namespace cairn {
const TensorInfo& tensor_of_chunk(const Catalog& catalog, std::uint64_t chunk) {
  const auto after = std::ranges::upper_bound(catalog.tensors(), chunk, {}, &TensorInfo::first_chunk);
  return *(after - 1);  // tensors without chunks share first_chunk with the next one, which comes last
}

void compare_storage(const Catalog& catalog, const TensorInfo& tensor, std::uint64_t chunk,
                     const ChunkPlace& place, std::uint32_t found) {
  if (found == place.storage_crc) return;
  const StoredItem& item = catalog.chunks()[chunk];
  const bool is_expanded = item.transform != Transform::none;
  const std::string text =
      is_expanded ? fmt::format("{}, expanded, at byte {}", item.byte_offset, place.storage_begin)
                  : fmt::format("{}", place.storage_begin);
  fail_corrupt("'{}': chunk {} in {} at byte {}: its {} bytes of data have CRC-32 {:08x}, {:08x} expected",
               escape_name(catalog.name(tensor)), to_string(catalog.box(tensor, item)),
               escape_name(catalog.files()[item.file]), text, place.storage_bytes, found, place.storage_crc);
}

std::vector<CrcPiece> compare_storages(Source& source, std::vector<CrcPiece> pieces,
                                       std::uint64_t& verified_bytes) {
  std::vector<CrcPiece> rest;
  for (const CrcPiece& piece : join_pieces(std::move(pieces))) {
    const TensorInfo& tensor = tensor_of_chunk(source.catalog(), piece.of);
    const auto place = piece.begin == 0 ? source.locate(tensor, piece.of) : nullptr;
    if (!place || place->storage_bytes != piece.bytes) {
      rest.push_back(piece);
      continue;
    }
    compare_storage(source.catalog(), tensor, piece.of, *place, piece.crc);
    verified_bytes += piece.bytes;
  }
  return rest;
}

}  // namespace cairn
