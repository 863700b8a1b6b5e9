// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <cassert>

#include "base/byte_writer.hpp"
#include "base/fail.hpp"
#include "zip/directory.hpp"
#include "zip/records.hpp"

namespace cairn::zip {
namespace {

constexpr std::uint16_t kEncryptedFlags = 0x2041;  // plain, strong, masked headers

void check_stored(const Entry& entry, std::uint16_t flags, std::string_view where) {
  if (entry.method != 0) {
    fail(ErrorKind::unsupported, "{}: record '{}' is compressed (zip method {})", where, entry.name,
         entry.method);
  }
  if ((flags & kEncryptedFlags) != 0) {
    fail(ErrorKind::unsupported, "{}: record '{}' is encrypted", where, entry.name);
  }
  if (entry.size != entry.compressed_size) {
    fail_corrupt("{}: stored record '{}' has {} bytes and takes {}", where, entry.name, entry.size,
                 entry.compressed_size);
  }
}

void check_signature(const std::byte* header, const Entry& entry, std::string_view where) {
  const auto found = load<std::uint32_t>(header);
  if (found == kLocalSignature) return;
  fail_corrupt("{}: header of record '{}' at byte {}: signature {:#010x} expected, {:#010x} found", where,
               entry.name, entry.header_offset, kLocalSignature, found);
}

// `header` holds the fixed part and as many bytes as the entry's name has: Directory keeps them in bounds.
std::uint64_t checked_payload_offset(std::span<const std::byte> header, const Directory& directory,
                                     const Entry& entry, std::string_view where) {
  check_stored(entry, entry.flags | load<std::uint16_t>(&header[6]), where);
  check_signature(header.data(), entry, where);
  const auto method = load<std::uint16_t>(&header[8]), name_bytes = load<std::uint16_t>(&header[26]);
  const std::string_view name = as_text(header.subspan(kLocalBytes));
  if (name_bytes != name.size() || name != entry.name || method != entry.method) {
    fail_corrupt("{}: header at byte {} is not that of record '{}': name '{}' of {} bytes, method {}", where,
                 entry.header_offset, entry.name, name, name_bytes, method);
  }
  const std::uint64_t payload = entry.header_offset + header.size() + load<std::uint16_t>(&header[28]);
  if (payload > directory.byte_offset || entry.size > directory.byte_offset - payload) {
    fail_corrupt("{}: record '{}' of {} bytes at byte {} passes the directory at byte {}", where, entry.name,
                 entry.size, payload, directory.byte_offset);
  }
  return payload;
}

}  // namespace

std::uint64_t payload_offset(const ReadAt& read_at, const Directory& directory, const Entry& entry,
                             std::string_view where) {
  std::array<std::byte, 512> small;
  Bytes large;
  std::span<std::byte> header(small);
  if (kLocalBytes + entry.name.size() > small.size()) {
    large.resize(kLocalBytes + entry.name.size());
    header = large;
  }
  header = header.first(kLocalBytes + entry.name.size());
  read_at(entry.header_offset, header);
  return checked_payload_offset(header, directory, entry, where);
}

std::uint64_t payload_offset(std::span<const std::byte> archive, const Directory& directory,
                             const Entry& entry, std::string_view where) {
  assert(archive.size() >= directory.byte_offset);
  const auto header = archive.subspan(static_cast<std::size_t>(entry.header_offset));
  return checked_payload_offset(header.first(kLocalBytes + entry.name.size()), directory, entry, where);
}

LocalHeader read_local_header(const ReadAt& read_at, const Directory& directory, const Entry& entry,
                              std::string_view where) {
  std::array<std::byte, kLocalBytes> fixed;
  read_at(entry.header_offset, fixed);
  const std::byte* at = fixed.data();
  check_signature(at, entry, where);
  LocalHeader header{.flags = load<std::uint16_t>(at + 6),
                     .method = load<std::uint16_t>(at + 8),
                     .crc = load<std::uint32_t>(at + 14),
                     .compressed_size = load<std::uint32_t>(at + 18),
                     .size = load<std::uint32_t>(at + 22),
                     .name = std::string(load<std::uint16_t>(at + 26), '\0'),
                     .extra = Bytes(load<std::uint16_t>(at + 28))};
  const std::uint64_t name_offset = entry.header_offset + kLocalBytes;
  header.payload_offset = name_offset + header.name.size() + header.extra.size();
  if (header.payload_offset > directory.byte_offset) {
    fail_corrupt("{}: header of record '{}' at byte {} passes the directory at byte {}", where, entry.name,
                 entry.header_offset, directory.byte_offset);
  }
  read_at(name_offset, std::as_writable_bytes(std::span(header.name)));
  read_at(name_offset + header.name.size(), header.extra);
  return header;
}

}  // namespace cairn::zip
