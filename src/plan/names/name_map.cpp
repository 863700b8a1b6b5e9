// SPDX-License-Identifier: BSD-3-Clause
#include "plan/names/name_map.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "base/text.hpp"

namespace cairn {
namespace {

NameMap::Line parse_line(std::string_view line, std::size_t number) {
  const auto tab = line.find('\t');
  if (tab == std::string_view::npos) fail_corrupt("old name, TAB, new name expected; there is no TAB");
  if (line.find('\t', tab + 1) != std::string_view::npos)
    fail_corrupt("old name, TAB, new name expected; there are two TABs (a TAB in a name is written \\t)");
  const auto from = unescape_name(line.substr(0, tab)), to = unescape_name(line.substr(tab + 1));
  if (!from || !to) fail_corrupt("\\t, \\n, \\r, \\\\ or \\x with two digits expected after a backslash");
  if (to->empty()) fail_corrupt("the new name of '{}' is empty", escape_name(*from));
  return {*from, *to, number};
}

}  // namespace

NameMap NameMap::parse(std::string_view text, std::string_view file) {
  auto table = std::make_shared<Table>();
  auto& lines = table->lines;
  for (std::size_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    with_context([&] { return fmt::format("{}, line {}", file, number); },
                 [&] { lines.push_back(parse_line(line, number)); });
  }

  std::unordered_map<std::string_view, std::uint32_t, KeyedHash> by_new_name;
  for (std::uint32_t i = 0; i < lines.size(); ++i) {
    const auto [old, is_first] = table->by_old_name.emplace(lines[i].from, i);
    if (!is_first) {
      fail_corrupt("{}, line {}: '{}' is mapped in line {} already", file, lines[i].number,
                   escape_name(lines[i].from), lines[old->second].number);
    }
    const auto [other, is_new] = by_new_name.emplace(lines[i].to, i);
    if (!is_new) {
      fail_corrupt("{}, line {}: '{}' is the new name of '{}' in line {} already", file, lines[i].number,
                   escape_name(lines[i].to), escape_name(lines[other->second].from),
                   lines[other->second].number);
    }
  }
  return NameMap(std::move(table));
}

std::optional<std::uint32_t> NameMap::find(std::string_view from) const {
  const auto at = table_->by_old_name.find(from);
  if (at == table_->by_old_name.end()) return std::nullopt;
  return at->second;
}

}  // namespace cairn
