// SPDX-License-Identifier: BSD-3-Clause
// Storages of which threads and ranks read parts: put together, compared with the CRCs that the source has.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/byte_writer.hpp"
#include "cairn/metadata.hpp"
#include "engine/crc_pieces.hpp"
#include "formats/source.hpp"

namespace cairn {

/// Local; one object per thread or rank.
class StorageCheck {
 public:
  /// `bytes` bytes of the chunk's storage have been read, from `begin` on. The place has a CRC.
  void add(std::uint64_t chunk, const ChunkPlace& place, std::uint64_t begin, std::uint64_t bytes,
           std::uint32_t crc);
  /// Compared elsewhere.
  void add_verified(std::uint64_t bytes) { verified_bytes_ += bytes; }
  void add(const StorageCheck& other);

  /// Compares the storages of which some parts, one after the other, make up the whole, and forgets them;
  /// parts may be there more than once. Throws corrupt, naming tensor, chunk, file and offset.
  void compare(const Catalog& catalog);
  std::uint64_t verified_bytes() const { return verified_bytes_; }

  /// For the wire.
  Bytes encode() const;
  static StorageCheck decode(std::span<const std::byte> bytes);

 private:
  struct Part {
    CrcPiece piece;  // of: the chunk
    std::uint64_t storage_begin, storage_bytes;
    std::uint32_t storage_crc;
  };
  static bool join(Part& before, const Part& part);
  bool compare_chunk(const Catalog& catalog, std::span<const Part> parts);

  std::vector<Part> parts_;
  std::uint64_t verified_bytes_ = 0;
};

}  // namespace cairn
