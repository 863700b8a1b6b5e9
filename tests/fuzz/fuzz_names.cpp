// SPDX-License-Identifier: BSD-3-Clause
// The first line as FILE:RULES, all of the rest as a map file; then both on the names that the map has, cut
// into paths in different ways. A path that has changed spells its name.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/error.hpp"
#include "plan/names/name_plan.hpp"
#include "plan/names/output_rules.hpp"

namespace {

using cairn::PathKey;

bool is_number(std::string_view text) {
  return !text.empty() && text.size() < 10 && (text == "0" || text[0] != '0') &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::vector<PathKey> nested(std::string_view name) {
  std::vector<PathKey> path;
  for (const std::string_view part : cairn::split_components(name)) {
    const bool is_position = is_number(part) && !path.empty();
    path.push_back(is_position ? PathKey{{}, std::stol(std::string(part))} : PathKey{part});
  }
  return path;
}

std::string joined(std::span<const PathKey> path) {
  std::string out;
  for (std::size_t i = 0; i < path.size(); ++i) {
    out += i == 0 ? "" : ".";
    out += path[i].is_position() ? std::to_string(path[i].position) : std::string(path[i].key);
  }
  return out;
}

void plan(const cairn::NameRules& rules, std::span<const cairn::NameMap::Line> lines) {
  std::deque<std::vector<PathKey>> paths;
  std::vector<cairn::NamedEntry> entries;
  for (const auto& line : lines) {
    auto& path = paths.emplace_back();
    if (line.number % 3 != 0) path = nested(line.from);
    const auto dtype = line.number % 2 == 0 ? cairn::DType::float32 : cairn::DType::int64;
    entries.push_back({line.from, path, dtype, line.number % 5 != 0});
  }
  const auto done = plan_names(rules, entries, lines.size() % 2 == 0);
  for (const auto& kept : done.kept()) {
    if (kept.is_renamed && (joined(kept.path) != kept.name || kept.path[0].is_position())) std::abort();
    if (kept.is_renamed && !entries[kept.entry].path.empty() &&
        kept.path.size() > entries[kept.entry].path.size())
      std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string_view first = text.substr(0, text.find('\n'));
  try {
    auto rules = cairn::parse_output_rules(first).rules;
    const auto map = cairn::NameMap::parse(text.substr(std::min(first.size() + 1, text.size())), "map");
    const auto lines = map.lines();
    try {
      plan(rules, lines);
    } catch (const cairn::Error&) {
    }
    rules = {};
    rules.map = map;
    plan(rules, lines);
  } catch (const cairn::Error&) {
  }
  return 0;
}
