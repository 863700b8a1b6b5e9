// SPDX-License-Identifier: BSD-3-Clause
#include "engine/storage_check.hpp"

#include <algorithm>
#include <tuple>

#include "base/byte_reader.hpp"
#include "base/crc32.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "engine/storage_crc.hpp"

namespace cairn {
namespace {

bool differ(const CrcPiece& a, const CrcPiece& b) {
  return a.of == b.of && a.begin == b.begin && a.bytes == b.bytes && a.crc != b.crc;
}

}  // namespace

void StorageCheck::add(std::uint64_t chunk, const ChunkPlace& place, std::uint64_t begin, std::uint64_t bytes,
                       std::uint32_t crc) {
  const Part part{{chunk, begin, bytes, crc}, place.storage_begin, place.storage_bytes, place.storage_crc};
  if (parts_.empty() || !join(parts_.back(), part)) parts_.push_back(part);
}

void StorageCheck::add(const StorageCheck& other) {
  parts_.insert(parts_.end(), other.parts_.begin(), other.parts_.end());
  verified_bytes_ += other.verified_bytes_;
}

// True when `part` has become part of `before`, or was one already.
bool StorageCheck::join(Part& before, const Part& part) {
  CrcPiece& a = before.piece;
  const CrcPiece& b = part.piece;
  if (a.of != b.of || b.begin < a.begin) return false;
  if (b.begin + b.bytes <= a.begin + a.bytes) return true;
  if (b.begin != a.begin + a.bytes) return false;
  a.crc = crc32_combine(a.crc, b.crc, b.bytes);
  a.bytes += b.bytes;
  return true;
}

void StorageCheck::compare(const Catalog& catalog) {
  std::ranges::sort(parts_, {}, [](const Part& part) {
    return std::tuple(part.piece.of, part.piece.begin, part.piece.bytes);
  });
  std::vector<Part> joined;
  const Part* last = nullptr;
  for (const Part& part : parts_) {
    if (last != nullptr && differ(last->piece, part.piece)) {
      fail_corrupt("'{}': {} bytes of {} were read twice, and had CRC-32 {:08x} and {:08x}",
                   escape_name(catalog.name(tensor_of_chunk(catalog, part.piece.of))), part.piece.bytes,
                   escape_name(catalog.files()[catalog.chunks()[part.piece.of].file]), last->piece.crc,
                   part.piece.crc);
    }
    last = &part;
    if (joined.empty() || !join(joined.back(), part)) joined.push_back(part);
  }
  parts_.clear();
  for (const Part& part : joined) {
    if (part.piece.begin != 0 || part.piece.bytes != part.storage_bytes) {
      parts_.push_back(part);
      continue;
    }
    ChunkPlace place;
    place.file = catalog.chunks()[part.piece.of].file;
    place.storage_begin = part.storage_begin;
    place.storage_bytes = part.storage_bytes;
    place.storage_crc = part.storage_crc;
    compare_storage(catalog, tensor_of_chunk(catalog, part.piece.of), part.piece.of, place, part.piece.crc);
    verified_bytes_ += part.storage_bytes;
  }
}

Bytes StorageCheck::encode() const {
  ByteWriter out;
  out.write(verified_bytes_);
  for (const Part& part : parts_) {
    for (const std::uint64_t number :
         {part.piece.of, part.piece.begin, part.piece.bytes, part.storage_begin, part.storage_bytes})
      out.write(number);
    out.write(part.piece.crc);
    out.write(part.storage_crc);
  }
  return out.take();
}

StorageCheck StorageCheck::decode(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "parts of storages");
  StorageCheck check;
  check.verified_bytes_ = in.read<std::uint64_t>();
  while (!in.at_end()) {
    Part& part = check.parts_.emplace_back();
    for (std::uint64_t* number :
         {&part.piece.of, &part.piece.begin, &part.piece.bytes, &part.storage_begin, &part.storage_bytes})
      *number = in.read<std::uint64_t>();
    part.piece.crc = in.read<std::uint32_t>();
    part.storage_crc = in.read<std::uint32_t>();
  }
  return check;
}

}  // namespace cairn
