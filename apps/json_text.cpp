// SPDX-License-Identifier: BSD-3-Clause
#include "json_text.hpp"

#include <fmt/format.h>

#include <iterator>

namespace cairn {
namespace {

struct Character {
  std::uint32_t code;  // 0xdcNN for a byte that is none
  std::size_t length;
};

// A surrogate that stands alone is taken as it is.
Character character_at(std::string_view text) {
  const auto byte = [&](std::size_t i) { return std::uint32_t{static_cast<unsigned char>(text[i])}; };
  const auto first = byte(0);
  const Character invalid = {0xdc00 | first, 1};
  if (first < 0x80) return {first, 1};
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return invalid;
  std::uint32_t code = first & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return invalid;
    code = code << 6 | (byte(i) & 0x3f);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  return overlong || code > 0x10ffff ? invalid : Character{code, length};
}

bool is_escaped(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0xd800 && code < 0xe000);
}

template <class Range, class Text>
std::string array_of(const Range& values, Text text) {
  std::string out = "[";
  for (const auto& value : values) {
    if (out.size() > 1) out += ", ";
    out += text(value);
  }
  return out += ']';
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const auto [code, length] = character_at(text);
    if (code == '"' || code == '\\')
      (out += '\\') += text[0];
    else if (code == '\n')
      out += "\\n";
    else if (code == '\t')
      out += "\\t";
    else if (is_escaped(code))
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", code);
    else
      out += text.substr(0, length);
    text.remove_prefix(length);
  }
  return out += '"';
}

std::string json_array(std::span<const std::int64_t> values) {
  return array_of(values, [](std::int64_t value) { return std::to_string(value); });
}

std::string json_array(const std::vector<std::string>& texts) {
  return array_of(texts, [](const std::string& text) { return json_string(text); });
}

}  // namespace cairn
