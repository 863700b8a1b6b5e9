// SPDX-License-Identifier: BSD-3-Clause
// What a format answers to be read: where the bytes of a stored chunk lie. Local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cairn/metadata.hpp"
#include "cairn/storage.hpp"
#include "plan/merged_read.hpp"

namespace cairn {

/// Numbers from here on name what a compressed item expands to, where numbers of files stand: the catalogue
/// has no such file, but the source that gave the number reads it.
inline constexpr std::uint32_t kFirstExpanded = 0x80000000;

/// Where the elements of a stored chunk lie. Element e of the chunk's box is at first_byte plus the sum of
/// e[d] * strides[d] * element size.
struct ChunkPlace {
  std::uint32_t file = kNoFile;  ///< index into the catalogue's files, or from kFirstExpanded on
  std::uint64_t first_byte = 0;  ///< offset in that file
  std::vector<std::int64_t> strides;
  /// Bytes of that file which the stored CRC-32 covers: the storage that the elements lie in. crc 0: not
  /// computed.
  std::uint64_t storage_begin = 0, storage_bytes = 0;
  std::uint32_t storage_crc = 0;
  /// The elements fill the storage, in row-major order.
  bool row_major = false;
};

/// Finds places in items that are in memory. One object per thread.
class ItemLocator {
 public:
  virtual ~ItemLocator() = default;
  /// As Source::locate. `item` holds the bytes of Source::small_item(chunk), and with them all that the place
  /// speaks of. The place is valid until the next call.
  virtual const ChunkPlace& locate(const TensorInfo& tensor, std::uint64_t chunk,
                                   std::span<const std::byte> item) = 0;
};

/// A checkpoint that is read. All calls may come from many threads at once.
class Source {
 public:
  virtual ~Source() = default;

  virtual const Catalog& catalog() const = 0;
  /// The bytes of a non-empty chunk's item, where they are so few that head and payload are best read at
  /// once, together with those of its neighbours; nullopt for others.
  virtual std::optional<FileRange> small_item(std::uint64_t chunk) const = 0;
  /// For the chunks that have a small_item. The source outlives it.
  virtual std::unique_ptr<ItemLocator> item_locator() = 0;
  /// The place of a non-empty chunk (index into catalog().chunks(), of that tensor). Throws corrupt when the
  /// stored head contradicts the catalogue, naming tensor, file and offset.
  virtual std::shared_ptr<const ChunkPlace> locate(const TensorInfo& tensor, std::uint64_t chunk) = 0;
  /// Reads `into.size()` bytes at `byte_offset` of a file of the catalogue, or of an expanded item.
  virtual void read(std::uint32_t file, std::uint64_t byte_offset, std::span<std::byte> into) = 0;
  /// Has the kernel copy bytes of a file of the catalogue into `output`, as File::copy_from; counted as read.
  /// Nothing of expanded items.
  virtual std::uint64_t copy(std::uint32_t file, std::uint64_t byte_offset, std::uint64_t bytes, File& output,
                             std::uint64_t output_offset) = 0;
  /// Bytes that came from files so far.
  virtual std::uint64_t read_bytes() const = 0;
};

}  // namespace cairn
