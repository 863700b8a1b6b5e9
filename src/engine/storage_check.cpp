// SPDX-License-Identifier: BSD-3-Clause
#include "engine/storage_check.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/byte_reader.hpp"
#include "base/crc32.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "engine/storage_crc.hpp"

namespace cairn {
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
  std::vector<Part> left;
  for (std::size_t at = 0, end = 0; at < parts_.size(); at = end) {
    while (end < parts_.size() && parts_[end].piece.of == parts_[at].piece.of) ++end;
    const auto parts = std::span(parts_).subspan(at, end - at);
    if (compare_chunk(catalog, parts)) continue;
    for (const Part& part : parts) {
      if (left.empty() || !join(left.back(), part)) left.push_back(part);
    }
  }
  parts_ = std::move(left);
}

// False when no parts make up the whole storage, one after the other. `parts` are ordered by begin.
bool StorageCheck::compare_chunk(const Catalog& catalog, std::span<const Part> parts) {
  std::map<std::uint64_t, std::uint32_t> crcs{{0, 0}};  // of the bytes up to there
  const auto compare = [&](std::uint64_t bytes, std::uint32_t crc) {
    if (const auto [known, is_new] = crcs.try_emplace(bytes, crc); !is_new && known->second != crc) {
      fail_corrupt("'{}' in {}: the first {} bytes of the data at byte {} were read twice, and differed",
                   escape_name(catalog.name(tensor_of_chunk(catalog, parts[0].piece.of))),
                   escape_name(catalog.files()[catalog.chunks()[parts[0].piece.of].file]), bytes,
                   parts[0].storage_begin);
    }
  };
  for (const auto& [piece, storage_begin, storage_bytes, storage_crc] : parts) {
    if (const auto before = crcs.find(piece.begin); before != crcs.end())
      compare(piece.begin + piece.bytes, crc32_combine(before->second, piece.crc, piece.bytes));
  }
  const Part& any = parts[0];
  const auto whole = crcs.find(any.storage_bytes);
  if (whole == crcs.end()) return false;
  ChunkPlace place;
  place.file = catalog.chunks()[any.piece.of].file;
  place.storage_begin = any.storage_begin;
  place.storage_bytes = any.storage_bytes;
  place.storage_crc = any.storage_crc;
  compare_storage(catalog, tensor_of_chunk(catalog, any.piece.of), any.piece.of, place, whole->second);
  verified_bytes_ += any.storage_bytes;
  return true;
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
