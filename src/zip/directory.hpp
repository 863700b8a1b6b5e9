// SPDX-License-Identifier: BSD-3-Clause
// Reads the directory of a stored zip archive by byte range. Does no I/O of its own and knows nothing of
// torch but its rule for the archive's name. Format: PKWARE APPNOTE 4.3 (records), 4.5.3 (zip64 extra field).
//
// All input is untrusted: every function throws corrupt or unsupported, never crashes, and takes memory in
// proportion to directory bytes that exist. `where` names the archive in messages ("__0_0.distcp at byte
// 128"). All byte offsets count from the archive's start. Everything is local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_writer.hpp"

namespace cairn::zip {

/// Fills all of `into` with the archive's bytes from `byte_offset`, or throws.
using ReadAt = std::function<void(std::uint64_t byte_offset, std::span<std::byte> into)>;

/// One record as the central directory describes it, zip64 fields resolved.
struct Entry {
  std::string_view name;
  std::uint16_t flags = 0;
  std::uint16_t method = 0;  ///< 0 is stored
  std::uint32_t crc = 0;
  std::uint64_t size = 0;             ///< in bytes, as is compressed_size
  std::uint64_t compressed_size = 0;  ///< bytes taken in the archive
  std::uint64_t header_offset = 0;
};

/// Invariants after reading: names are not empty and differ; each header and its compressed_size bytes lie
/// before `byte_offset` and no two of them overlap (local extra fields, not yet read, left aside);
/// the directory lies before the end records. Entry::name points into `text` or into the caller's buffer.
struct Directory {
  Directory() = default;
  Directory(Directory&&) = default;
  Directory& operator=(Directory&&) = default;

  std::vector<Entry> entries;     ///< in directory order
  std::uint64_t byte_offset = 0;  ///< of the central directory
  std::uint64_t byte_size = 0;
  std::uint64_t end_offset = 0;  ///< of the first end record: zip64's where there is one

  /// The entry of that name, or nullptr. O(log n).
  const Entry* find(std::string_view name) const;

  struct Key {
    std::uint64_t hash;
    std::uint32_t position;
  };
  std::vector<Key> index;  ///< sorted by hash, then name; empty while there are few entries
  Bytes text;              ///< what the names point into, where read_directory did the reading
};

/// Reads the directory of an archive of `archive_size` bytes. One request where directory and end records
/// take less than 4 KiB, at most two plus one per 4 MiB of directory otherwise.
Directory read_directory(const ReadAt& read_at, std::uint64_t archive_size, std::string_view where);

/// The fast form: `tail` holds the last bytes of the archive, or all of it, and outlives `into`, whose memory
/// is used again. False where the tail does not reach back to the directory's first byte; a tail that is the
/// whole archive always does.
bool read_directory(std::span<const std::byte> tail, std::uint64_t archive_size, std::string_view where,
                    Directory& into);

/// Where the payload of a stored record begins. Checks the local header against the entry (signature, name,
/// method) and that the payload ends before the directory. Throws unsupported, naming the record, where it is
/// compressed or encrypted. One request.
std::uint64_t payload_offset(const ReadAt& read_at, const Directory& directory, const Entry& entry,
                             std::string_view where);

/// The same for an archive that is in memory as a whole.
std::uint64_t payload_offset(std::span<const std::byte> archive, const Directory& directory,
                             const Entry& entry, std::string_view where);

/// A local header as it stands in the file, nothing resolved or compared.
struct LocalHeader {
  std::uint16_t flags = 0;
  std::uint16_t method = 0;
  std::uint32_t crc = 0;
  std::uint32_t compressed_size = 0;
  std::uint32_t size = 0;
  std::string name;
  Bytes extra;
  std::uint64_t payload_offset = 0;  ///< at most Directory::byte_offset
};

LocalHeader read_local_header(const ReadAt& read_at, const Directory& directory, const Entry& entry,
                              std::string_view where);

/// torch's archive name: the first entry's name up to its first '/'. Throws corrupt where there is none.
std::string_view archive_prefix(const Directory& directory, std::string_view where);

}  // namespace cairn::zip
