// SPDX-License-Identifier: BSD-3-Clause
#include "formats/torch_file/archive_index.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <numeric>

#include "base/fail.hpp"
#include "base/text.hpp"

namespace cairn::torch_file {
namespace {

constexpr std::string_view kWhere = "zip archive";

bool in_order(const std::vector<zip::Entry>& entries) {
  return std::ranges::is_sorted(entries, {}, &zip::Entry::header_offset);
}

}  // namespace

void ArchiveIndex::read(const zip::ReadAt& read_at, std::uint64_t size) {
  directory_ = zip::read_directory(read_at, size, kWhere);
  size_ = size;
  prepare(read_at);
}

void ArchiveIndex::read(std::span<const std::byte> archive) {
  zip::read_directory(archive, archive.size(), kWhere,
                      directory_);  // a whole archive reaches back far enough
  size_ = archive.size();
  prepare([&](std::uint64_t at, std::span<std::byte> into) {
    std::memcpy(into.data(), archive.data() + at, into.size());
  });
}

void ArchiveIndex::prepare(const zip::ReadAt& read_at) {
  prefix_.assign(zip::archive_prefix(directory_, kWhere));
  prefix_ += '/';
  order_.clear();
  if (!in_order(directory_.entries)) {
    order_.resize(directory_.entries.size());
    std::iota(order_.begin(), order_.end(), std::uint32_t{0});
    std::ranges::sort(order_, {}, [&](std::uint32_t i) { return directory_.entries[i].header_offset; });
  }
  read_alignment(read_at);
}

// A record that cannot be read is for the check to report.
void ArchiveIndex::read_alignment(const zip::ReadAt& read_at) {
  alignment_ = 1;
  const zip::Entry* entry = find(".storage_alignment");
  std::array<char, 8> text;
  if (entry == nullptr || entry->size == 0 || entry->size > text.size()) return;
  try {
    const auto at = zip::payload_offset(read_at, directory_, *entry, kWhere);
    read_at(at, std::as_writable_bytes(std::span(text).first(static_cast<std::size_t>(entry->size))));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::io) throw;
    return;
  }
  std::uint64_t value = 0;
  const char* end = text.data() + entry->size;
  const auto [stop, problem] = std::from_chars(text.data(), end, value);
  if (problem == std::errc() && stop == end && value > 0) alignment_ = value;
}

std::uint64_t ArchiveIndex::end_of(std::size_t i) const {
  return i + 1 < record_count() ? record(i + 1).header_offset : directory_.byte_offset;
}

std::size_t ArchiveIndex::first_beyond(std::uint64_t byte_offset) const {
  std::size_t low = 0, high = record_count();
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (end_of(middle) > byte_offset)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

const zip::Entry* ArchiveIndex::find(std::string_view name) const {
  std::string whole;
  whole.reserve(prefix_.size() + name.size());
  whole.append(prefix_).append(name);
  return directory_.find(whole);
}

bool ArchiveIndex::has_unchecked() const {
  return std::ranges::any_of(directory_.entries,
                             [](const zip::Entry& e) { return e.crc == 0 && e.size > 0; });
}

}  // namespace cairn::torch_file
