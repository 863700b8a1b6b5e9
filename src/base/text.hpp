// SPDX-License-Identifier: BSD-3-Clause
// Text for people: names made safe to print, sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn {

/// The name with control characters, marks of writing direction, backslashes and invalid UTF-8 as escapes
/// (\t, \n, \r, \\, \xNN): it takes one line and cannot steer a terminal. Valid UTF-8 stays.
std::string escape_name(std::string_view name);

/// The name that escape_name() shows so; nullopt for a backslash that begins none of its escapes. Other bytes
/// stand for themselves, escaped or not.
std::optional<std::string> unescape_name(std::string_view text);

/// "1.50 GB": decimal units, for reports.
std::string human_bytes(std::uint64_t bytes);

/// "64MiB", "5GB", "1000", also KB MB TB KiB GiB TiB and the one-letter forms K M G T (binary); nullopt when
/// it is no such text or does not fit 64 bits.
std::optional<std::uint64_t> parse_size(std::string_view text);

}  // namespace cairn
