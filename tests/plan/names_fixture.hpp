// SPDX-License-Identifier: BSD-3-Clause
// Entries from short texts, and what became of them.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "plan/names/name_plan.hpp"

namespace cairn {

/// Paths are written with slashes, positions with '#': "l/#0/w" is ('l', 0, 'w'), named l.0.w.
class NamedEntries {
 public:
  NamedEntries(std::initializer_list<std::string_view> paths) {
    for (const std::string_view path : paths) add(path);
  }

  NamedEntries& add(std::string_view text, DType dtype = DType::float32, bool is_tensor = true) {
    auto& path = paths_.emplace_back();
    std::string name;
    while (true) {
      const std::string_view step = text.substr(0, text.find('/'));
      const bool is_position = step.starts_with('#');
      const std::string& shown = texts_.emplace_back(step.substr(is_position ? 1 : 0));
      path.push_back(is_position ? PathKey{{}, std::stol(shown)} : PathKey{shown});
      name += (path.size() == 1 ? "" : ".") + shown;
      if (step.size() == text.size()) break;
      text.remove_prefix(step.size() + 1);
    }
    entries_.push_back({texts_.emplace_back(name), path, dtype, is_tensor});
    return *this;
  }
  /// With a path of its own, or none.
  NamedEntries& add_named(std::string_view name, std::vector<PathKey> path) {
    entries_.push_back({name, paths_.emplace_back(std::move(path)), DType::float32, true});
    return *this;
  }

  std::span<const NamedEntry> all() const { return entries_; }

 private:
  std::deque<std::string> texts_;
  std::deque<std::vector<PathKey>> paths_;
  std::vector<NamedEntry> entries_;
};

inline std::string path_text(std::span<const PathKey> path) {
  std::string out;
  for (const PathKey& step : path)
    out += (out.empty() ? "" : "/") +
           (step.is_position() ? "#" + std::to_string(step.position) : std::string(step.key));
  return out;
}

/// The kept entries' paths, as NamedEntries takes them.
inline std::vector<std::string> kept_paths(const NameRules& rules, const NamedEntries& entries,
                                           bool nested = true) {
  std::vector<std::string> out;
  const NamePlan plan = plan_names(rules, entries.all(), nested);
  for (const KeptEntry& kept : plan.kept()) out.push_back(path_text(kept.path));
  return out;
}

}  // namespace cairn
