// SPDX-License-Identifier: BSD-3-Clause
#include "formats/torch_file/archive.hpp"

#include "base/crc32.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "pickle/reader.hpp"

namespace cairn::torch_file {

Archive::Archive(const zip::ReadAt& read_at, std::uint64_t size, std::string where)
    : read_at_(read_at),
      where_(std::move(where)),
      directory_(zip::read_directory(read_at, size, where_)),
      prefix_(std::string(zip::archive_prefix(directory_, where_)) + "/") {
  check_byte_order();
}

const zip::Entry& Archive::entry(std::string_view name) const {
  const zip::Entry* found = directory_.find(prefix_ + std::string(name));
  if (found == nullptr) fail_corrupt("{}: no record '{}'", where_, escape_name(name));
  return *found;
}

Bytes Archive::read_small(const zip::Entry& entry) const {
  const std::uint64_t at = zip::payload_offset(read_at_, directory_, entry, where_);
  Bytes bytes(entry.size);  // bounded: the payload was just found to lie inside the archive
  read_at_(at, bytes);
  if (entry.crc != 0 && crc32(bytes) != entry.crc) {
    fail_corrupt("{}: record '{}' has CRC-32 {:08x}, {:08x} expected", where_, escape_name(entry.name),
                 crc32(bytes), entry.crc);
  }
  return bytes;
}

void Archive::check_byte_order() const {
  const zip::Entry* order = directory_.find(prefix_ + "byteorder");
  if (order == nullptr) return;  // before torch 2.1 there was none: little-endian
  if (order->size > 16) fail_corrupt("{}: the byteorder record has {} bytes", where_, order->size);
  const Bytes bytes = read_small(*order);
  if (as_text(bytes) == "little") return;
  if (as_text(bytes) == "big") fail(ErrorKind::unsupported, "{}: saved on a big-endian machine", where_);
  fail_corrupt("{}: byte order '{}', 'little' or 'big' expected", where_, escape_name(as_text(bytes)));
}

pickle::Value Archive::read_pickle(pickle::Arena& arena) const {
  const Bytes bytes = read_small(entry("data.pkl"));
  return pickle::read(arena, bytes, where_ + ": data.pkl");
}

Record Archive::storage(std::string_view key, std::uint64_t bytes) const {
  const zip::Entry& found = entry("data/" + std::string(key));
  const std::uint64_t at = zip::payload_offset(read_at_, directory_, found, where_);
  if (found.size < bytes) {
    fail_corrupt("{}: storage '{}' has {} bytes, {} expected", where_, escape_name(key), found.size, bytes);
  }
  return {at, found.size, found.crc};
}

}  // namespace cairn::torch_file
