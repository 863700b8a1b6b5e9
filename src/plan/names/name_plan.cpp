// SPDX-License-Identifier: BSD-3-Clause
#include "plan/names/name_plan.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/fail.hpp"
#include "base/text.hpp"
#include "plan/names/collisions.hpp"
#include "plan/names/name_list.hpp"
#include "plan/names/wrappers.hpp"
#include "tensor/cast.hpp"

namespace cairn {
namespace {

// A rule about leading components, and how many names it changed.
struct Leading {
  std::vector<std::string_view> from, to;  // `to` is empty for strip-prefix
  std::string_view text;
  std::size_t used = 0;
};

// Each name is changed at most once, by the rule with the most components.
void change_leading(PathName& name, std::vector<Leading>& rules) {
  for (Leading& rule : rules) {
    if (!name.leads(rule.from) && !(rule.to.size() > 0 && name.is(rule.from))) continue;
    if (rule.to.empty())
      name.erase(0, rule.from.size());
    else
      name.replace(0, rule.from.size(), rule.to);
    ++rule.used;
    return;
  }
}

void longest_first(std::vector<Leading>& rules, std::string_view option) {
  std::ranges::stable_sort(rules, std::greater{}, [](const Leading& rule) { return rule.from.size(); });
  for (std::size_t i = 0; i < rules.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (rules[i].text == rules[k].text)
        fail(ErrorKind::invalid_argument, "{} '{}' is given twice", option, escape_name(rules[i].text));
    }
  }
}

void require_used(const std::vector<Leading>& rules, std::string_view option) {
  for (const Leading& rule : rules) {
    if (rule.used == 0)
      fail(ErrorKind::not_found, "{} '{}' applies to no name", option, escape_name(rule.text));
  }
}

}  // namespace

class NamePlanner {
 public:
  NamePlanner(const NameRules& rules, std::span<const NamedEntry> entries)
      : rules_(rules), entries_(entries) {}

  NamePlan run(bool nested) {
    choose();
    if (!rules_.keeps_names()) {
      rename_all();
      require_no_collision(plan_.kept_, entries_, nested);
    }
    cast_all();
    return std::move(plan_);
  }

 private:
  // --- select, exclude ---

  // A glob is looked for among all names: it is there to find misspelt ones.
  std::vector<bool> matched(const std::vector<Glob>& globs, std::string_view option) const {
    std::vector<bool> out(entries_.size());
    for (const Glob& glob : globs) {
      bool found = false;
      for (std::size_t i = 0; i < entries_.size(); ++i) {
        if ((found && out[i]) || !glob.matches(entries_[i].name)) continue;
        found = out[i] = true;
      }
      if (!found) {
        fail(ErrorKind::not_found, "{} '{}' matches none of {} names", option, escape_name(glob.pattern()),
             entries_.size());
      }
    }
    return out;
  }

  void choose() {
    const auto selected = matched(rules_.select, "select"), excluded = matched(rules_.exclude, "exclude");
    for (std::uint32_t i = 0; i < entries_.size(); ++i) {
      const NamedEntry& entry = entries_[i];
      if ((rules_.select.empty() || selected[i]) && !excluded[i])
        plan_.kept_.push_back({i, entry.dtype, false, entry.name, entry.path});
    }
    if (plan_.kept_.empty() && !entries_.empty())
      fail(ErrorKind::not_found, "select and exclude leave none of {} names", entries_.size());
  }

  // --- unwrap, strip-prefix, rename, map ---

  void rename_all() {
    std::optional<Wrappers> wrappers;
    if (rules_.unwrap) {
      std::vector<std::string_view> names;
      for (const NamedEntry& entry : entries_) names.push_back(entry.name);
      wrappers.emplace(names);
    }
    std::vector<Leading> prefixes, renames;
    for (const std::string& prefix : rules_.strip_prefix)
      prefixes.push_back({split_components(prefix), {}, prefix});
    for (const auto& [from, to] : rules_.renames)
      renames.push_back({split_components(from), split_components(to), from});
    longest_first(prefixes, "strip-prefix");
    longest_first(renames, "rename");

    if (rules_.map) map_used_.resize(rules_.map->lines().size());
    PathName name;
    for (KeptEntry& kept : plan_.kept_) {
      name.assign(kept.name, kept.path);
      if (wrappers) wrappers->unwrap(name, kept.name);
      change_leading(name, prefixes);
      change_leading(name, renames);
      if (rules_.map) map_one(name);
      take_over(name, kept);
    }
    require_used(prefixes, "strip-prefix");
    require_used(renames, "rename");
    if (rules_.map) require_total();
  }

  void map_one(PathName& name) {
    const std::string now = name.spell();
    const auto line = rules_.map->find(now);
    if (!line) {
      unmapped_.push_back(now);
      return;
    }
    map_used_[*line] = true;
    name.replace(0, name.component_count(), split_components(rules_.map->lines()[*line].to));
  }

  void require_total() {
    if (!unmapped_.empty()) fail(ErrorKind::mismatch, "the map has no line for {}", list_names(unmapped_));
    for (std::size_t i = 0; i < map_used_.size(); ++i) {
      if (!map_used_[i]) plan_.unused_map_names_.push_back(rules_.map->lines()[i].from);
    }
  }

  void take_over(const PathName& name, KeptEntry& kept) {
    if (name.spells(kept.name)) return;
    kept.is_renamed = true;
    kept.name = stored(name.spell());
    path_.clear();
    name.path(kept.name, path_);
    kept.path = stored(path_);
  }

  std::string_view stored(const std::string& name) {
    char* const at = static_cast<char*>(plan_.storage_->allocate(name.size(), 1));
    return {at, static_cast<std::size_t>(std::ranges::copy(name, at).out - at)};
  }
  std::span<const PathKey> stored(const std::vector<PathKey>& path) {
    void* const at = plan_.storage_->allocate(path.size() * sizeof(PathKey), alignof(PathKey));
    return {static_cast<PathKey*>(std::memcpy(at, path.data(), path.size() * sizeof(PathKey))), path.size()};
  }

  // --- cast ---

  void cast_all() {
    std::vector<std::size_t> matches(rules_.casts.size());
    std::vector<std::string> refused;
    for (KeptEntry& kept : plan_.kept_) {
      if (!entries_[kept.entry].is_tensor) continue;
      const CastRule* const rule = last_match(kept, matches);
      if (!rule || !rule->to) continue;
      if (can_cast(kept.dtype, *rule->to))
        kept.dtype = *rule->to;
      else
        refused.push_back(fmt::format("{} ({})", kept.name, info(kept.dtype).name));
    }
    for (std::size_t i = 0; i < matches.size(); ++i) {
      const auto& glob = rules_.casts[i].glob;
      if (glob && matches[i] == 0)
        fail(ErrorKind::not_found, "cast '{}=…' matches no tensor", escape_name(glob->pattern()));
    }
    if (!refused.empty()) {
      fail(ErrorKind::unsupported,
           "a cast names tensors whose type is none of float64, float32, float16, bfloat16: {}",
           list_names(refused));
    }
  }

  const CastRule* last_match(const KeptEntry& kept, std::vector<std::size_t>& matches) const {
    const CastRule* last = nullptr;
    for (std::size_t i = 0; i < rules_.casts.size(); ++i) {
      const CastRule& rule = rules_.casts[i];
      if (rule.only && *rule.only != kept.dtype) continue;
      if (!(rule.glob ? rule.glob->matches(kept.name) : can_cast(kept.dtype, *rule.to))) continue;
      last = &rule;
      ++matches[i];
    }
    return last;
  }

  const NameRules& rules_;
  const std::span<const NamedEntry> entries_;
  NamePlan plan_;
  std::vector<PathKey> path_;
  std::vector<bool> map_used_;
  std::vector<std::string> unmapped_;
};

NamePlan plan_names(const NameRules& rules, std::span<const NamedEntry> entries, bool nested) {
  return NamePlanner(rules, entries).run(nested);
}

}  // namespace cairn
