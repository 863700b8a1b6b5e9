// SPDX-License-Identifier: BSD-3-Clause
#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace cairn {
namespace {

// U+200E, U+200F, U+202A..U+202E, U+2066..U+2069 change the direction of what follows on a terminal.
bool is_direction_mark(std::string_view text) {
  if (text.size() < 3 || text[0] != '\xe2') return false;
  const auto second = static_cast<unsigned char>(text[1]), third = static_cast<unsigned char>(text[2]);
  if (second == 0x80) return third == 0x8e || third == 0x8f || (third >= 0xaa && third <= 0xae);
  return second == 0x81 && third >= 0xa6 && third <= 0xa9;
}

// Length of the valid UTF-8 sequence at the front that is safe to print; 0 when there is none. C1 controls
// (U+0080..U+009F) are not safe.
std::size_t printable_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f && first != '\\' ? 1 : 0;
  const std::size_t length = first >= 0xf0 && first < 0xf5 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;
  if (length == 0 || first >= 0xf5 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool overlong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool beyond = (first == 0xed && byte(1) >= 0xa0) || (first == 0xf4 && byte(1) >= 0x90);
  const bool control = (first == 0xc2 && byte(1) < 0xa0) || is_direction_mark(text);
  return overlong || beyond || control ? 0 : length;
}

std::string escaped(char c) {
  switch (c) {
    case '\t':
      return "\\t";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\\':
      return "\\\\";
    default:
      return fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
}

}  // namespace

std::string escape_name(std::string_view name) {
  std::string out;
  while (!name.empty()) {
    const std::size_t length = printable_length(name);
    if (length > 0)
      out += name.substr(0, length);
    else
      out += escaped(name[0]);
    name.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::optional<std::string> unescape_name(std::string_view text) {
  constexpr std::string_view kLetters = "tnr\\", kBytes = "\t\n\r\\";
  std::string out;
  while (!text.empty()) {
    std::size_t used = 1;
    if (text[0] != '\\') {
      out += text[0];
    } else if (text.size() >= 2 && kLetters.find(text[1]) != std::string_view::npos) {
      out += kBytes[kLetters.find(text[1])];
      used = 2;
    } else {
      unsigned value = 0;
      const std::string_view digits = text.substr(std::min<std::size_t>(text.size(), 2), 2);
      const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value, 16);
      if (!text.starts_with("\\x") || digits.size() != 2 || end != digits.end()) return std::nullopt;
      out += static_cast<char>(value);
      used = 4;
    }
    text.remove_prefix(used);
  }
  return out;
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array kUnits = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) value /= 1000, ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, kUnits[unit]);
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (unit.empty() || unit == "B") return number;
  const std::size_t power = std::string_view("KMGTP").find(unit[0]);
  if (power == std::string_view::npos) return std::nullopt;
  const bool decimal = unit.substr(1) == "B";
  if (!decimal && unit.size() != 1 && unit.substr(1) != "iB") return std::nullopt;
  for (std::size_t i = 0; i <= power; ++i) {
    if (__builtin_mul_overflow(number, std::uint64_t{decimal ? 1000u : 1024u}, &number)) return std::nullopt;
  }
  return number;
}

}  // namespace cairn
