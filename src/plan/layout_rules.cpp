// SPDX-License-Identifier: BSD-3-Clause
#include "plan/layout_rules.hpp"

#include <algorithm>
#include <charconv>

#include "base/fail.hpp"
#include "base/text.hpp"

namespace cairn {
namespace {

constexpr std::string_view kSpaces = " \t";

std::optional<std::size_t> parse_layout(std::string_view word) {
  if (word == "replicated") return std::nullopt;
  constexpr std::string_view begin = "shard(", end = ")";
  std::size_t dim = 0;
  if (word.starts_with(begin) && word.ends_with(end)) {
    const auto digits = word.substr(begin.size(), word.size() - begin.size() - end.size());
    const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), dim);
    if (error == std::errc() && rest == digits.data() + digits.size()) return dim;
  }
  fail_corrupt("'{}': replicated or shard(D) expected", escape_name(word));
}

std::string_view trimmed(std::string_view line) {
  const auto first = line.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(kSpaces) - first + 1);
}

}  // namespace

LayoutRules LayoutRules::parse(std::string_view text, std::string_view file) {
  LayoutRules rules;
  rules.file_ = file;
  for (std::size_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    line = trimmed(line);
    if (line.empty() || line.starts_with('#')) continue;
    with_context([&] { return fmt::format("{}, line {}", file, number); },
                 [&] {
                   const auto space = line.find_last_of(kSpaces);
                   if (space == std::string_view::npos)
                     fail_corrupt("a glob, white space, then replicated or shard(D) expected");
                   rules.rules_.push_back({Glob(std::string(trimmed(line.substr(0, space)))),
                                           parse_layout(line.substr(space + 1)), number});
                 });
  }
  return rules;
}

std::optional<std::size_t> LayoutRules::dim_of(std::string_view name, std::size_t otherwise) const {
  for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
    if (rule->glob.matches(name)) return rule->dim;
  }
  return otherwise;
}

void LayoutRules::require_use(const std::vector<std::string_view>& names) const {
  for (const Rule& rule : rules_) {
    if (std::ranges::any_of(names, [&](std::string_view name) { return rule.glob.matches(name); })) continue;
    fail(ErrorKind::not_found, "{}, line {}: no tensor matches '{}'", file_, rule.line,
         escape_name(rule.glob.pattern()));
  }
}

}  // namespace cairn
