// SPDX-License-Identifier: BSD-3-Clause
#include "plan/names/wrappers.hpp"

#include <algorithm>
#include <array>

namespace cairn {
namespace {

constexpr std::array<std::string_view, 3> kUnmistakable = {"_orig_mod", "_fsdp_wrapped_module",
                                                           "_checkpoint_wrapped_module"};

constexpr std::uint8_t kModule = 1, kOther = 2;  // what may stand next

// Calls body(component) for each component that another one follows.
template <class Body>
void for_each_inner(std::string_view name, Body&& body) {
  for (std::size_t begin = 0;;) {
    const std::size_t dot = name.find('.', begin);
    if (dot == std::string_view::npos) return;
    body(name.substr(begin, dot - begin));
    begin = dot + 1;
  }
}

bool has_inner_module(std::string_view name) {
  return name.starts_with("module.") || name.find(".module.") != std::string_view::npos;
}

}  // namespace

Wrappers::Wrappers(std::span<const std::string_view> names) {
  if (std::ranges::none_of(names, has_inner_module)) return;
  next_.push_back(0);
  for (const std::string_view name : names) {
    std::uint32_t before = 0;
    for_each_inner(name, [&](std::string_view component) {
      next_[before] |= component == "module" ? kModule : kOther;
      const auto number = static_cast<std::uint32_t>(next_.size());
      const auto [at, is_new] = numbers_.try_emplace({before, component}, number);
      if (is_new) next_.push_back(0);
      before = at->second;
    });
    next_[before] |= kOther;
  }
}

void Wrappers::unwrap(PathName& name, std::string_view original) const {
  std::vector<bool> gone;
  std::uint32_t before = 0;
  for_each_inner(original, [&](std::string_view component) {
    const bool wraps = component == "module" && !next_.empty() && next_[before] == kModule;
    gone.push_back(wraps || std::ranges::find(kUnmistakable, component) != kUnmistakable.end());
    if (!next_.empty()) before = numbers_.find({before, component})->second;
  });
  name.erase(gone);
}

}  // namespace cairn
