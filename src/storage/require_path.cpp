// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/storage.hpp"

namespace cairn {
namespace {

// A scheme as in RFC 3986, 3.1.
bool is_url(std::string_view text) {
  const auto end = text.find("://");
  if (end == text.npos || end == 0) return false;
  const auto is_letter = [](char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; };
  return is_letter(text[0]) && std::ranges::all_of(text.substr(0, end), [&](char c) {
           return is_letter(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
         });
}

}  // namespace

void require_path(const std::string& path) {
  if (!is_url(path)) return;
  throw Error(ErrorKind::unsupported, path + ": Cairn does not read or write URLs, only paths",
              "a local path of this form begins with ./");
}

}  // namespace cairn
