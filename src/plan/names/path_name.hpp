// SPDX-License-Identifier: BSD-3-Clause
// A flat name together with the nesting path behind it, and what a change of the name does to the path. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

/// One step of a nesting path: a dict key or a list position.
struct PathKey {
  static constexpr std::uint32_t kNew = 0xffffffff;

  std::string_view key;        ///< of a position: empty
  std::int64_t position = -1;  ///< -1: a key
  /// In results: the step of the recorded path that this one is, unchanged; kNew: there is none.
  std::uint32_t recorded = kNew;

  bool is_position() const { return position >= 0; }
};

/// A name cut at its dots into components. Each component knows whether a step of the path begins with it: a
/// key that holds dots is several components and one step.
///
/// Changes are made to runs of components. No change makes the path deeper: the steps outside the run stay;
/// so do those inside, one by one, when as many new components replace it as it has; else the new components
/// are one step, a literal key. Components that both sides have at either end count as not changed.
class PathName {
 public:
  /// The path must outlive this, and so must the name. A path whose steps do not spell the name when
  /// joined by dots, or an empty one: the name is the only key.
  void assign(std::string_view name, std::span<const PathKey> path);

  std::size_t component_count() const { return components_.size(); }
  std::string_view component(std::size_t i) const { return components_[i].text; }
  /// True when the name is these components.
  bool is(std::span<const std::string_view> components) const;
  /// True when the name is spelled so; without making a string.
  bool spells(std::string_view name) const;
  /// True when the name begins with these whole components and has more after them.
  bool leads(std::span<const std::string_view> prefix) const;

  /// Removes components [begin, end); one is left at least.
  void erase(std::size_t begin, std::size_t end);
  /// Removes each component i for which gone[i]; those beyond stay, and there are some.
  void erase(const std::vector<bool>& gone);
  /// Replaces components [begin, end), which are some, by these, which are some. Their text must outlive
  /// this.
  void replace(std::size_t begin, std::size_t end, std::span<const std::string_view> components);

  /// The flat name as it is now.
  std::string spell() const;
  /// The path as it is now, appended to `out`; its keys are views into `spelled`, which is what spell() gave.
  /// A position that has come to the front is a key, since the root is a dict.
  void path(std::string_view spelled, std::vector<PathKey>& out) const;

 private:
  struct Component {
    std::string_view text;
    std::uint32_t recorded;  // the step of the recorded path it came from
    bool starts_step;
  };

  void put(std::size_t begin, std::size_t end, std::span<const std::string_view> components);

  std::span<const PathKey> recorded_;
  std::vector<Component> components_;
};

/// The components of a name: "" has one, which is empty.
std::vector<std::string_view> split_components(std::string_view name);

}  // namespace cairn
