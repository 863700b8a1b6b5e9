// SPDX-License-Identifier: BSD-3-Clause
#include "zip/end_record.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "zip/records.hpp"

namespace cairn::zip {
namespace {

bool ends_here(std::span<const std::byte> tail, std::size_t at) {
  return load<std::uint32_t>(&tail[at]) == kEndSignature &&
         load<std::uint16_t>(&tail[at + 20]) == tail.size() - at - kEndBytes;
}

// Backwards from the place it has without a comment.
std::optional<std::size_t> find_signature(std::span<const std::byte> tail) {
  if (tail.size() < kEndBytes) return {};
  const std::size_t last = tail.size() - kEndBytes;
  const std::size_t first = last - std::min<std::size_t>(last, kMax16);
  for (std::size_t at = last + 1; at-- > first;) {
    if (ends_here(tail, at)) return at;
  }
  return {};
}

bool agrees(std::uint64_t plain, std::uint64_t maximum, std::uint64_t wide) {
  return plain == maximum || plain == wide;
}

void read_plain(const std::byte* at, EndRecord& end, std::string_view where) {
  const auto disk = load<std::uint16_t>(at + 4), directory_disk = load<std::uint16_t>(at + 6);
  if (disk != directory_disk || (disk != 0 && disk != kMax16)) {
    fail(ErrorKind::unsupported, "{}: zip archive in several volumes (volume {})", where, disk);
  }
  end.entry_count = load<std::uint16_t>(at + 10);
  end.directory_size = load<std::uint32_t>(at + 12);
  end.directory_offset = load<std::uint32_t>(at + 16);
  const auto count_here = load<std::uint16_t>(at + 8);
  if (count_here != end.entry_count) {
    fail_corrupt("{}: zip end record counts {} entries and {}", where, count_here, end.entry_count);
  }
}

// The zip64 record stands right before its locator: nobody writes its extensible part.
void read_zip64(const std::byte* at, EndRecord& end, std::string_view where) {
  if (load<std::uint32_t>(at) != kZip64EndSignature || load<std::uint64_t>(at + 4) != kZip64EndBytes - 12) {
    fail_corrupt("{}: no zip64 end record of {} bytes at byte {}", where, kZip64EndBytes, end.end_offset);
  }
  if (load<std::uint64_t>(at + 16) != 0) {
    fail(ErrorKind::unsupported, "{}: zip archive in several volumes", where);
  }
  const auto count_here = load<std::uint64_t>(at + 24), count = load<std::uint64_t>(at + 32);
  const auto size = load<std::uint64_t>(at + 40), offset = load<std::uint64_t>(at + 48);
  if (count_here != count || !agrees(end.entry_count, kMax16, count) ||
      !agrees(end.directory_size, kMax32, size) || !agrees(end.directory_offset, kMax32, offset)) {
    fail_corrupt(
        "{}: zip end records disagree: {} and {} entries, directory of {} and {} bytes at byte {} and {}",
        where, end.entry_count, count, end.directory_size, size, end.directory_offset, offset);
  }
  end.entry_count = count;
  end.directory_size = size;
  end.directory_offset = offset;
}

void check_bounds(const EndRecord& end, std::string_view where) {
  if (end.directory_offset > end.end_offset || end.directory_size > end.end_offset - end.directory_offset) {
    fail_corrupt("{}: zip directory of {} bytes at byte {} passes its end record at byte {}", where,
                 end.directory_size, end.directory_offset, end.end_offset);
  }
  if (end.entry_count > end.directory_size / kCentralBytes) {
    fail_corrupt("{}: {} entries cannot fit a zip directory of {} bytes", where, end.entry_count,
                 end.directory_size);
  }
}

}  // namespace

std::optional<EndRecord> find_end_record(std::span<const std::byte> tail, std::uint64_t archive_size,
                                         std::string_view where) {
  const std::uint64_t tail_offset = archive_size - tail.size();
  const bool longer_may_help = tail_offset > 0 && tail.size() < kLongestEndBytes;
  const auto found = find_signature(tail);
  if (!found) {
    if (longer_may_help) return {};
    fail_corrupt("{}: no zip end record in the last {} of {} bytes: cut short, or no zip file", where,
                 tail.size(), archive_size);
  }
  constexpr std::size_t zip64_bytes = kZip64EndBytes + kZip64LocatorBytes;
  if (*found < zip64_bytes && longer_may_help) return {};

  EndRecord end{
      .directory_offset = 0, .directory_size = 0, .entry_count = 0, .end_offset = tail_offset + *found};
  read_plain(&tail[*found], end, where);
  const bool located = *found >= kZip64LocatorBytes &&
                       load<std::uint32_t>(&tail[*found - kZip64LocatorBytes]) == kZip64LocatorSignature;
  if (located) {
    const auto stated = load<std::uint64_t>(&tail[*found - kZip64LocatorBytes + 8]);
    if (*found < zip64_bytes || stated != end.end_offset - zip64_bytes) {
      fail_corrupt(
          "{}: zip64 end record expected {} bytes before the end record at byte {}, located at byte {}",
          where, zip64_bytes, end.end_offset, stated);
    }
    end.end_offset = stated;
    read_zip64(&tail[*found - zip64_bytes], end, where);
  }
  check_bounds(end, where);
  return end;
}

}  // namespace cairn::zip
