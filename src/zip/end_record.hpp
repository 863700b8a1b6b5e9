// SPDX-License-Identifier: BSD-3-Clause
// Finds the end records of a zip archive and takes the directory's place out of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace cairn::zip {

/// Where the central directory lies. It has been checked to end at or before `end_offset`, and to be large
/// enough for `entry_count` entries.
struct EndRecord {
  std::uint64_t directory_offset;
  std::uint64_t directory_size;
  std::uint64_t entry_count;
  std::uint64_t end_offset;  ///< of the first end record
};

/// A tail of so many bytes always holds the end records with the longest comment.
inline constexpr std::uint64_t kLongestEndBytes = 22 + 65535 + 20 + 56;

/// `tail` is the last bytes of an archive of `archive_size` bytes. Empty where a longer tail may show more;
/// never empty for the whole archive or kLongestEndBytes. Throws corrupt, and unsupported for archives in
/// several volumes.
std::optional<EndRecord> find_end_record(std::span<const std::byte> tail, std::uint64_t archive_size,
                                         std::string_view where);

}  // namespace cairn::zip
