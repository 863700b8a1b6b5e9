// SPDX-License-Identifier: BSD-3-Clause
#include "formats/torch_file/archive.hpp"

#include <algorithm>

#include "base/crc32.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "pickle/reader.hpp"

namespace cairn::torch_file {

Archive::Archive(const zip::ReadAt& read_at, std::uint64_t size, std::string_view where)
    : read_at_(&read_at), where_(where), directory_(zip::read_directory(read_at, size, where)) {
  open();
}

Archive::Archive(std::span<const std::byte> bytes, std::string_view where) : memory_(bytes), where_(where) {
  zip::read_directory(bytes, bytes.size(), where, directory_);
  open();
}

void Archive::open() {
  prefix_ = zip::archive_prefix(directory_, where_);
  prefix_ += '/';
  check_byte_order();
}

const zip::Entry* Archive::find(std::string_view folder, std::string_view name) const {
  std::string whole;
  whole.reserve(prefix_.size() + folder.size() + name.size());
  whole.append(prefix_).append(folder).append(name);
  return directory_.find(whole);
}

const zip::Entry& Archive::entry(std::string_view folder, std::string_view name) const {
  const zip::Entry* found = find(folder, name);
  if (found == nullptr) fail_corrupt("{}: no record '{}{}'", where_, folder, escape_name(name));
  return *found;
}

std::uint64_t Archive::payload_offset(const zip::Entry& entry) const {
  return read_at_ != nullptr ? zip::payload_offset(*read_at_, directory_, entry, where_)
                             : zip::payload_offset(memory_, directory_, entry, where_);
}

std::span<const std::byte> Archive::read_small(const zip::Entry& entry, Bytes& buffer) const {
  const std::uint64_t at = payload_offset(entry);
  std::span<const std::byte> bytes;
  if (read_at_ == nullptr) {
    bytes = memory_.subspan(at, entry.size);
  } else {
    buffer.resize(entry.size);  // bounded: the payload was just found to lie inside the archive
    (*read_at_)(at, buffer);
    bytes = buffer;
  }
  if (entry.crc != 0 && crc32(bytes) != entry.crc) {
    fail_corrupt("{}: record '{}' has CRC-32 {:08x}, {:08x} expected", where_, escape_name(entry.name),
                 crc32(bytes), entry.crc);
  }
  return bytes;
}

void Archive::check_byte_order() const {
  const zip::Entry* order = find({}, "byteorder");
  if (order == nullptr) return;  // before torch 2.1 there was none: little-endian
  if (order->size > 16) fail_corrupt("{}: the byteorder record has {} bytes", where_, order->size);
  Bytes buffer;
  const std::string_view found = as_text(read_small(*order, buffer));
  if (found == "little") return;
  if (found == "big") fail(ErrorKind::unsupported, "{}: saved on a big-endian machine", where_);
  fail_corrupt("{}: byte order '{}', 'little' or 'big' expected", where_, escape_name(found));
}

std::span<const std::byte> Archive::pickle_bytes(Bytes& buffer) const {
  return read_small(entry({}, "data.pkl"), buffer);
}

pickle::Value Archive::read_pickle(pickle::Arena& arena) const {
  Bytes buffer;
  return pickle::read(arena, pickle_bytes(buffer), fmt::format("{}: data.pkl", where_));
}

bool Archive::is_script() const {
  if (find({}, "constants.pkl") != nullptr) return true;
  const std::string code = prefix_ + "code/";
  return std::ranges::any_of(directory_.entries,
                             [&](const zip::Entry& entry) { return entry.name.starts_with(code); });
}

const zip::Entry& Archive::storage_entry(std::string_view key, std::uint64_t bytes) const {
  const zip::Entry& found = entry("data/", key);
  if (found.method != 0)
    fail(ErrorKind::unsupported, "{}: storage '{}' is compressed (zip method {})", where_, escape_name(key),
         found.method);
  if (found.size < bytes)
    fail_corrupt("{}: storage '{}' has {} bytes, {} expected", where_, escape_name(key), found.size, bytes);
  return found;
}

Record Archive::storage(std::string_view key, std::uint64_t bytes) const {
  const zip::Entry& found = storage_entry(key, bytes);
  return {payload_offset(found), found.size, found.crc};
}

}  // namespace cairn::torch_file
