// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "base/fail.hpp"
#include "cairn/plan.hpp"
#include "plan/names/name_list.hpp"

namespace cairn {
namespace {

struct RankName {
  std::int64_t rank;
  std::string pattern;
};

/// The number at the end of "rank_3" or "dp_rank_3"; nullopt for other components.
std::optional<std::int64_t> rank_of(std::string_view component) {
  constexpr std::string_view word = "rank_";
  const std::size_t at = component.rfind(word);
  if (at == std::string_view::npos || (at > 0 && component[at - 1] != '_')) return std::nullopt;
  const std::string_view digits = component.substr(at + word.size());
  std::int64_t rank = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  const bool is_number = error == std::errc() && end == digits.data() + digits.size() && digits[0] != '-';
  return is_number ? std::optional(rank) : std::nullopt;
}

std::optional<RankName> rank_name(std::string_view name) {
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view component = name.substr(begin, end - begin);
    if (const auto rank = rank_of(component)) {
      const std::size_t digits = component.size() - component.find_last_not_of("0123456789") - 1;
      return RankName{*rank, fmt::format("{}*{}", name.substr(0, end - digits), name.substr(end))};
    }
    begin = end + 1;
  }
  return std::nullopt;
}

}  // namespace

std::string rank_entry_kind(std::string_view name) {
  auto entry = rank_name(name);
  return entry ? std::move(entry->pattern) : std::string();
}

std::optional<std::int64_t> rank_of_entry(std::string_view name) {
  const auto entry = rank_name(name);
  return entry ? std::optional(entry->rank) : std::nullopt;
}

RankEntryOutcome decide_rank_entries(std::span<const std::string_view> names, int saved_ranks, int ranks,
                                     RankEntryPolicy policy) {
  if (saved_ranks < 1 || ranks < 1)
    fail(ErrorKind::invalid_argument, "{} ranks, saved by {}", ranks, saved_ranks);
  RankEntryOutcome outcome;
  std::map<std::string, std::set<std::int64_t>> found;  // ranks that there are, by pattern
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto entry = rank_name(names[i]);
    if (!entry) continue;
    const bool stays = saved_ranks == ranks || (policy != RankEntryPolicy::drop && entry->rank < ranks);
    (stays ? outcome.loaded : outcome.dropped).push_back(i);
    if (stays) found[entry->pattern].insert(entry->rank);
    found.try_emplace(entry->pattern);
    shown.emplace_back(names[i]);
  }
  if (saved_ranks == ranks || found.empty()) return outcome;
  if (policy == RankEntryPolicy::refuse) {
    throw Error(
        ErrorKind::mismatch,
        fmt::format("saved by {} ranks, loaded by {}: what becomes of entries that belong to one rank, "
                    "{}?",
                    saved_ranks, ranks, list_names(shown)),
        "rank_entries says whether to keep or to drop them");
  }
  for (const auto& [pattern, present] : found) {
    const std::int64_t lacking = ranks - static_cast<std::int64_t>(present.size());
    if (lacking > 0) outcome.lacks.push_back({pattern, lacking});
  }
  return outcome;
}

}  // namespace cairn
