// SPDX-License-Identifier: BSD-3-Clause
// The byte layout of the zip that torch.save writes, as pure functions: same records, same bytes as
// torch 2.13 (checked against its files, also above 4 GiB and above 65 535 records). Everything is local.
//
// A record is   header · name · [zip64 field] · FB pad · payload · [descriptor]
// All records are followed by the central directory, zip64 end record, locator and plain end record.
// Sizes and header offsets from 0xffffffff on are wide: they are written in zip64 fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <string>
#include <string_view>
#include <unordered_set>

#include "base/byte_writer.hpp"

namespace cairn::zip {

/// Where one record lies. Byte offsets count from the archive's start.
struct RecordPlace {
  std::uint64_t header_offset = 0;
  std::uint64_t payload_offset = 0;    ///< a multiple of the alignment
  std::uint64_t size = 0;              ///< of the payload in bytes
  std::uint32_t descriptor_bytes = 0;  ///< 0 for an empty payload, 24 where anything is wide, else 16

  std::uint64_t descriptor_offset() const { return payload_offset + size; }
  /// Where the next record, or the directory, begins.
  std::uint64_t end() const { return descriptor_offset() + descriptor_bytes; }
  friend bool operator==(const RecordPlace&, const RecordPlace&) = default;
};

/// `name_length` is that of the whole name, archive name included, at most 65535 bytes. `alignment` is a
/// power of two from 64 to 32768 (the pad's length field has 16 bits). Throws invalid_argument for others.
RecordPlace place_record(std::size_t name_length, std::uint64_t size, std::uint64_t header_offset,
                         std::uint32_t alignment);

/// Appends payload_offset - header_offset bytes. `name` has the length the place was made for.
void write_local_header(std::string_view name, const RecordPlace& place, ByteWriter& out);

/// Appends descriptor_bytes bytes.
void write_descriptor(const RecordPlace& place, std::uint32_t crc, ByteWriter& out);

/// Bytes that write_central_entry appends.
std::uint64_t central_entry_bytes(std::size_t name_length, const RecordPlace& place);
void write_central_entry(std::string_view name, const RecordPlace& place, std::uint32_t crc, ByteWriter& out);

/// Appends the three end records: 98 bytes.
inline constexpr std::uint64_t kEndRecordsBytes = 98;
void write_end(std::uint64_t directory_offset, std::uint64_t directory_size, std::uint64_t entry_count,
               ByteWriter& out);

/// The second number of the serialization id, of one more record with bytes: 0 of none.
std::uint64_t add_to_crcs(std::uint64_t crcs, std::uint32_t crc);

/// The content of the last record, `.data/serialization_id`: two numbers of 20 digits. The first depends on
/// the iteration order of a libstdc++ hash set of names, which torch happens to use; the set here has the
/// same order, which follows from hashes and the order of insertion alone.
class SerializationId {
 public:
  /// Every record before the id itself, once, in writing order, by its name without "archive/". Records
  /// without bytes don't count in the second number.
  void add(std::string_view record_name, std::uint32_t crc, std::uint64_t size);

  std::string digits() const;

 private:
  // A name, by its std::hash and its number: names differ.
  struct Name {
    std::size_t hash, number;
    bool operator==(const Name& other) const { return number == other.number; }
  };
  struct NameHash {
    std::size_t operator()(const Name& name) const noexcept { return name.hash; }
  };

  std::pmr::monotonic_buffer_resource nodes_;
  std::pmr::unordered_set<Name, NameHash> names_{&nodes_};
  std::uint64_t crcs_ = 0;
};

/// torch's archive name for a file saved under `path`: the last component without what follows its last dot;
/// "archive" where the path has bytes outside ASCII. '\\' separates components too, as it does for torch.
/// torch refuses names with nothing before the dot ('.hidden'); they are given "archive" here.
std::string archive_name(std::string_view path);

}  // namespace cairn::zip
