// SPDX-License-Identifier: BSD-3-Clause
#include "zip/directory.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/byte_reader.hpp"
#include "base/fail.hpp"
#include "zip/end_record.hpp"
#include "zip/records.hpp"

namespace cairn::zip {
namespace {

constexpr std::size_t kFewEntries = 16;
constexpr std::uint64_t kFirstTailBytes = 4096;
constexpr std::uint64_t kRequestBytes = std::uint64_t{4} << 20;

std::uint64_t hash_of(std::string_view name) { return std::hash<std::string_view>{}(name); }

// The zip64 field holds, in this order, those of the values whose plain field is at its maximum.
void read_zip64_field(ByteReader field, Entry& entry) {
  for (std::uint64_t* value : {&entry.size, &entry.compressed_size, &entry.header_offset}) {
    if (*value == kMax32) *value = field.read<std::uint64_t>();
  }
}

void resolve_zip64(std::span<const std::byte> extra, Entry& entry) {
  if (entry.size != kMax32 && entry.compressed_size != kMax32 && entry.header_offset != kMax32) return;
  ByteReader fields(extra, "extra field");
  while (fields.remaining() >= 4) {
    const auto id = fields.read<std::uint16_t>();
    const auto body = fields.bytes(fields.read<std::uint16_t>());
    if (id == kZip64Field) return read_zip64_field(ByteReader(body, "zip64 extra field"), entry);
  }
}

Entry read_entry(ByteReader& reader) {
  const std::byte* at = reader.bytes(kCentralBytes).data();
  if (load<std::uint32_t>(at) != kCentralSignature) {
    fail_corrupt("signature {:#010x} expected, {:#010x} found", kCentralSignature, load<std::uint32_t>(at));
  }
  Entry entry{.name = {},
              .flags = load<std::uint16_t>(at + 8),
              .method = load<std::uint16_t>(at + 10),
              .crc = load<std::uint32_t>(at + 16),
              .size = load<std::uint32_t>(at + 24),
              .compressed_size = load<std::uint32_t>(at + 20),
              .header_offset = load<std::uint32_t>(at + 42)};
  entry.name = reader.text(load<std::uint16_t>(at + 28));
  const auto extra = reader.bytes(load<std::uint16_t>(at + 30));
  reader.skip(load<std::uint16_t>(at + 32));
  resolve_zip64(extra, entry);
  return entry;
}

void check_entry(const Entry& entry, std::uint64_t directory_offset) {
  if (entry.name.empty()) fail_corrupt("name is empty");
  const std::uint64_t header_bytes = kLocalBytes + entry.name.size();
  if (entry.header_offset > directory_offset || header_bytes > directory_offset - entry.header_offset ||
      entry.compressed_size > directory_offset - entry.header_offset - header_bytes) {
    fail_corrupt("record '{}' of {} bytes with its header at byte {} passes the directory at byte {}",
                 entry.name, entry.compressed_size, entry.header_offset, directory_offset);
  }
}

std::uint64_t least_end(const Entry& entry) {
  return entry.header_offset + kLocalBytes + entry.name.size() + entry.compressed_size;
}

void check_pair(const Entry& first, const Entry& second, std::string_view where) {
  if (least_end(first) <= second.header_offset) return;
  fail_corrupt("{}: zip records '{}' and '{}' overlap at byte {}", where, first.name, second.name,
               second.header_offset);
}

// Writers list records as they lie; only other archives pay for sorting.
void check_overlaps(const std::vector<Entry>& entries, std::string_view where) {
  const auto by_offset = [](const Entry& a, const Entry& b) { return a.header_offset < b.header_offset; };
  if (std::is_sorted(entries.begin(), entries.end(), by_offset)) {
    for (std::size_t i = 1; i < entries.size(); ++i) check_pair(entries[i - 1], entries[i], where);
    return;
  }
  std::vector<const Entry*> sorted;
  for (const Entry& entry : entries) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [&](const Entry* a, const Entry* b) { return by_offset(*a, *b); });
  for (std::size_t i = 1; i < sorted.size(); ++i) check_pair(*sorted[i - 1], *sorted[i], where);
}

[[noreturn]] void fail_twice(std::string_view name, std::string_view where) {
  fail_corrupt("{}: zip record '{}' is listed twice", where, name);
}

void check_few_names(const std::vector<Entry>& entries, std::string_view where) {
  for (std::size_t i = 1; i < entries.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (entries[i].name == entries[j].name) fail_twice(entries[i].name, where);
    }
  }
}

// Sorted, not hashed into buckets: names made to collide must not cost quadratic time.
void index_names(Directory& directory, std::string_view where) {
  const auto& entries = directory.entries;
  auto& index = directory.index;
  index.resize(entries.size());
  for (std::uint32_t i = 0; i < entries.size(); ++i) index[i] = {hash_of(entries[i].name), i};
  std::sort(index.begin(), index.end(), [&](Directory::Key a, Directory::Key b) {
    return a.hash != b.hash ? a.hash < b.hash : entries[a.position].name < entries[b.position].name;
  });
  for (std::size_t i = 1; i < index.size(); ++i) {
    const Entry& entry = entries[index[i].position];
    if (index[i - 1].hash == index[i].hash && entries[index[i - 1].position].name == entry.name) {
      fail_twice(entry.name, where);
    }
  }
}

void parse(std::span<const std::byte> bytes, const EndRecord& end, std::string_view where, Directory& into) {
  into.entries.clear();
  into.index.clear();
  into.byte_offset = end.directory_offset;
  into.byte_size = end.directory_size;
  into.end_offset = end.end_offset;
  into.entries.reserve(static_cast<std::size_t>(end.entry_count));
  ByteReader reader(bytes, "zip directory");
  try {
    for (std::uint64_t i = 0; i < end.entry_count; ++i) {
      into.entries.push_back(read_entry(reader));
      check_entry(into.entries.back(), end.directory_offset);
    }
  } catch (Error& error) {
    error.add_context(fmt::format("{}: zip directory entry {}", where, into.entries.size()));
    throw;
  }
  if (!reader.at_end()) {
    fail_corrupt("{}: {} bytes left in the zip directory after its {} entries", where, reader.remaining(),
                 end.entry_count);
  }
  check_overlaps(into.entries, where);
  if (into.entries.size() > kFewEntries) {
    index_names(into, where);
  } else {
    check_few_names(into.entries, where);
  }
}

Bytes read_tail(const ReadAt& read_at, std::uint64_t archive_size, std::uint64_t count) {
  Bytes tail(static_cast<std::size_t>(std::min(archive_size, count)));
  read_at(archive_size - tail.size(), tail);
  return tail;
}

// Grows as bytes arrive: a stated size that the file does not have must not cost memory.
Bytes read_range(const ReadAt& read_at, std::uint64_t byte_offset, std::uint64_t count) {
  Bytes bytes;
  while (bytes.size() < count) {
    const std::size_t done = bytes.size();
    const std::uint64_t next = std::min(count - done, kRequestBytes);
    bytes.resize(done + static_cast<std::size_t>(next));
    read_at(byte_offset + done, std::span(bytes).subspan(done));
  }
  return bytes;
}

}  // namespace

const Entry* Directory::find(std::string_view name) const {
  if (index.empty()) {
    const auto found = std::find_if(entries.begin(), entries.end(), [&](auto& e) { return e.name == name; });
    return found == entries.end() ? nullptr : &*found;
  }
  const std::uint64_t hash = hash_of(name);
  auto key = std::lower_bound(index.begin(), index.end(), hash,
                              [](const Key& a, std::uint64_t wanted) { return a.hash < wanted; });
  for (; key != index.end() && key->hash == hash; ++key) {
    if (entries[key->position].name == name) return &entries[key->position];
  }
  return nullptr;
}

bool read_directory(std::span<const std::byte> tail, std::uint64_t archive_size, std::string_view where,
                    Directory& into) {
  const auto end = find_end_record(tail, archive_size, where);
  const std::uint64_t tail_offset = archive_size - tail.size();
  if (!end || end->directory_offset < tail_offset) return false;
  parse(tail.subspan(static_cast<std::size_t>(end->directory_offset - tail_offset),
                     static_cast<std::size_t>(end->directory_size)),
        *end, where, into);
  return true;
}

Directory read_directory(const ReadAt& read_at, std::uint64_t archive_size, std::string_view where) {
  Directory directory;
  directory.text = read_tail(read_at, archive_size, kFirstTailBytes);
  if (read_directory(directory.text, archive_size, where, directory)) return directory;
  auto end = find_end_record(directory.text, archive_size, where);
  if (!end) {
    directory.text = read_tail(read_at, archive_size, kLongestEndBytes);
    end = find_end_record(directory.text, archive_size, where);
  }
  directory.text = read_range(read_at, end->directory_offset, end->directory_size);
  parse(directory.text, *end, where, directory);
  return directory;
}

std::string_view archive_prefix(const Directory& directory, std::string_view where) {
  if (directory.entries.empty()) fail_corrupt("{}: zip archive without records", where);
  const std::string_view name = directory.entries.front().name;
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos || slash == 0) {
    fail_corrupt("{}: first zip record '{}' is in no folder, 'archive/...' expected", where, name);
  }
  return name.substr(0, slash);
}

}  // namespace cairn::zip
