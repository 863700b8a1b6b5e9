// SPDX-License-Identifier: BSD-3-Clause
// Which neighbouring ranges of files one read takes together. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace cairn {

/// Bytes [begin, begin + bytes) of a file, by its number.
struct FileRange {
  std::uint32_t file;
  std::uint64_t begin, bytes;

  std::uint64_t end() const { return begin + bytes; }
  friend auto operator<=>(const FileRange&, const FileRange&) = default;
};

/// What one read may bring along.
struct MergeLimits {
  std::uint64_t gap_bytes;   ///< between two ranges: read, and used by nobody
  std::uint64_t read_bytes;  ///< of the read; a longer range is read alone
};

/// `span` holds the first `count` of the ranges it was made of.
struct MergedRead {
  std::size_t count;
  FileRange span;
};

/// The first read for `sorted`, which is ascending and not empty: its first range and those after it, as far
/// as file and limits allow. Ranges may overlap. None ends beyond 2^64 - 1.
MergedRead first_merged_read(std::span<const FileRange> sorted, MergeLimits limits);

}  // namespace cairn
