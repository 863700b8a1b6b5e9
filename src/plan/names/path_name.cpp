// SPDX-License-Identifier: BSD-3-Clause
#include "plan/names/path_name.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

namespace cairn {
namespace {

constexpr std::size_t kNotThere = static_cast<std::size_t>(-1);

// A step as it stands in a flat name.
struct StepText {
  explicit StepText(const PathKey& step) : view(step.key) {
    if (!step.is_position()) return;
    const auto end = std::to_chars(digits.begin(), digits.end(), step.position).ptr;
    view = {digits.data(), static_cast<std::size_t>(end - digits.data())};
  }
  StepText(const StepText&) = delete;
  StepText& operator=(const StepText&) = delete;

  std::array<char, 20> digits{};
  std::string_view view;
};

// Where in the name the step ends that begins at `begin`; kNotThere when the name goes on otherwise.
std::size_t step_end(std::string_view name, std::size_t begin, const PathKey& step, bool is_last) {
  const StepText text(step);
  if (begin > name.size() || !name.substr(begin).starts_with(text.view)) return kNotThere;
  const std::size_t end = begin + text.view.size();
  const bool fits = is_last ? end == name.size() : end < name.size() && name[end] == '.';
  return fits ? end : kNotThere;
}

}  // namespace

std::vector<std::string_view> split_components(std::string_view name) {
  std::vector<std::string_view> out;
  for (std::size_t begin = 0;;) {
    const std::size_t dot = name.find('.', begin);
    out.push_back(name.substr(begin, dot - begin));
    if (dot == std::string_view::npos) return out;
    begin = dot + 1;
  }
}

void PathName::assign(std::string_view name, std::span<const PathKey> path) {
  recorded_ = path;
  components_.clear();
  std::size_t begin = 0;
  const auto add = [&](std::size_t end, std::uint32_t recorded) {
    bool starts_step = true;
    for (;; starts_step = false) {
      const std::size_t dot = std::min(name.find('.', begin), end);
      components_.push_back({name.substr(begin, dot - begin), recorded, starts_step});
      begin = dot + 1;
      if (dot == end) return;
    }
  };
  for (std::uint32_t i = 0; i < path.size(); ++i) {
    const std::size_t end = step_end(name, begin, path[i], i + 1 == path.size());
    if (end == kNotThere) break;
    add(end, i);
  }
  if (begin == name.size() + 1) return;
  components_.clear();
  begin = 0;
  add(name.size(), PathKey::kNew);
}

bool PathName::is(std::span<const std::string_view> components) const {
  return std::ranges::equal(components, components_, {}, {}, &Component::text);
}

bool PathName::spells(std::string_view name) const {
  std::size_t at = 0;
  for (const Component& component : components_) {
    if (at > 0 && !name.substr(at - 1).starts_with('.')) return false;
    if (!name.substr(std::min(at, name.size())).starts_with(component.text)) return false;
    at += component.text.size() + 1;
  }
  return at == name.size() + 1;
}

bool PathName::leads(std::span<const std::string_view> prefix) const {
  return components_.size() > prefix.size() &&
         std::ranges::equal(prefix, std::span(components_).first(prefix.size()), {}, {}, &Component::text);
}

void PathName::erase(std::size_t begin, std::size_t end) {
  const auto at = [&](std::size_t i) { return components_.begin() + static_cast<std::ptrdiff_t>(i); };
  const bool starts_step = std::any_of(at(begin), at(std::min(end + 1, components_.size())),
                                       [](const Component& c) { return c.starts_step; });
  components_.erase(at(begin), at(end));
  if (begin < components_.size()) components_[begin].starts_step = starts_step || begin == 0;
}

void PathName::erase(const std::vector<bool>& gone) {
  std::size_t left = 0;
  bool follows_gone = false, starts_step = false;
  for (std::size_t i = 0; i < components_.size(); ++i) {
    Component component = components_[i];
    starts_step |= component.starts_step;
    if (i < gone.size() && gone[i]) {
      follows_gone = true;
      continue;
    }
    if (follows_gone) component.starts_step = starts_step || left == 0;
    components_[left++] = component;
    follows_gone = starts_step = false;
  }
  components_.resize(left);
}

void PathName::replace(std::size_t begin, std::size_t end, std::span<const std::string_view> components) {
  std::size_t common = std::min(end - begin, components.size());
  const std::size_t first = begin;
  for (; common > 0 && components_[begin].text == components.front(); --common) {
    ++begin;
    components = components.subspan(1);
  }
  for (; common > 0 && components_[end - 1].text == components.back(); --common) {
    --end;
    components = components.first(components.size() - 1);
  }
  if (components.empty()) {
    if (begin != end) erase(begin, end);
    return;
  }
  if (begin == end) {
    // Components come in between: they join a neighbour, so that the path does not become deeper.
    const bool after = begin != first;
    std::vector<std::string_view> joined(components.begin(), components.end());
    const std::size_t neighbour = after ? begin - 1 : begin;
    joined.insert(after ? joined.begin() : joined.end(), components_[neighbour].text);
    return put(neighbour, neighbour + 1, joined);
  }
  put(begin, end, components);
}

// replace() without looking for common components.
void PathName::put(std::size_t begin, std::size_t end, std::span<const std::string_view> components) {
  if (components.size() == end - begin) {
    for (const std::string_view text : components) components_[begin++].text = text;
    return;
  }
  std::vector<Component> merged;
  for (const std::string_view text : components) merged.push_back({text, PathKey::kNew, false});
  merged.front().starts_step = components_[begin].starts_step;
  const auto at = components_.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto left = components_.erase(at, components_.begin() + static_cast<std::ptrdiff_t>(end));
  components_.insert(left, merged.begin(), merged.end());
}

std::string PathName::spell() const {
  std::string out(components_.front().text);
  for (const Component& component : std::span(components_).subspan(1)) out.append(".").append(component.text);
  return out;
}

void PathName::path(std::string_view spelled, std::vector<PathKey>& out) const {
  const std::size_t first_step = out.size();
  for (std::size_t i = 0, begin = 0; i < components_.size();) {
    const std::uint32_t recorded = components_[i].recorded;
    std::size_t end = begin;
    do {
      end += components_[i].text.size() + 1;
      ++i;
    } while (i < components_.size() && !components_[i].starts_step);
    PathKey step{spelled.substr(begin, end - 1 - begin)};
    if (recorded != PathKey::kNew && StepText(recorded_[recorded]).view == step.key) {
      const bool is_root = out.size() == first_step;
      if (recorded_[recorded].is_position() && !is_root)
        step = {{}, recorded_[recorded].position, recorded};
      else if (!recorded_[recorded].is_position())
        step.recorded = recorded;
    }
    out.push_back(step);
    begin = end;
  }
}

}  // namespace cairn
