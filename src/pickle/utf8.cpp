// SPDX-License-Identifier: BSD-3-Clause
#include "pickle/utf8.hpp"

#include <cstdint>
#include <cstring>

namespace cairn::pickle {
namespace {

std::size_t skip_ascii(std::string_view text, std::size_t at) {
  std::uint64_t eight;
  for (; at + sizeof(eight) <= text.size(); at += sizeof(eight)) {
    std::memcpy(&eight, text.data() + at, sizeof(eight));
    if ((eight & 0x8080808080808080u) != 0) break;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

/// Length in bytes of the valid character at `at`, 0 if there is none.
std::size_t multibyte_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u;
  };
  const auto follows = [&](std::size_t i) { return byte(i) >> 6 == 2; };
  const unsigned lead = byte(0);
  if (lead >= 0xc2 && lead <= 0xdf) return follows(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    return follows(1) && follows(2) && (lead != 0xe0 || byte(1) >= 0xa0) ? 3 : 0;
  }
  if (lead < 0xf0 || lead > 0xf4 || !follows(1) || !follows(2) || !follows(3)) return 0;
  if ((lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) > 0x8f)) return 0;
  return 4;
}

}  // namespace

bool valid_utf8(std::string_view text) {
  std::size_t at = 0;
  while ((at = skip_ascii(text, at)) < text.size()) {
    const std::size_t length = multibyte_length(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

std::optional<std::string> utf8_to_latin1(std::string_view utf8) {
  std::string result;
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    const auto lead = static_cast<unsigned char>(utf8[i]);
    if (lead < 0x80) {
      result.push_back(utf8[i]);
    } else if (lead <= 0xc3 && i + 1 < utf8.size()) {
      result.push_back(static_cast<char>((lead & 3) << 6 | (utf8[++i] & 0x3f)));
    } else {
      return {};
    }
  }
  return result;
}

std::string latin1_to_utf8(std::string_view latin1) {
  std::string result;
  for (const char c : latin1) {
    const auto code = static_cast<unsigned char>(c);
    if (code >= 0x80) result.push_back(static_cast<char>(0xc0 | code >> 6));
    result.push_back(code < 0x80 ? c : static_cast<char>(0x80 | (code & 0x3f)));
  }
  return result;
}

}  // namespace cairn::pickle
