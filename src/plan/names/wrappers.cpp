// SPDX-License-Identifier: BSD-3-Clause
#include "plan/names/wrappers.hpp"

#include <algorithm>
#include <array>

namespace cairn {
namespace {

constexpr std::array<std::string_view, 3> kUnmistakable = {"_orig_mod", "_fsdp_wrapped_module",
                                                           "_checkpoint_wrapped_module"};

// Calls body(before, component) for each component that another one follows; `before` ends with its dot.
template <class Body>
void for_each_inner(std::string_view name, Body&& body) {
  for (std::size_t begin = 0;;) {
    const std::size_t dot = name.find('.', begin);
    if (dot == std::string_view::npos) return;
    body(name.substr(0, begin), name.substr(begin, dot - begin));
    begin = dot + 1;
  }
}

}  // namespace

Wrappers::Wrappers(std::span<const std::string_view> names) {
  for (const std::string_view name : names) {
    for_each_inner(name, [&](std::string_view before, std::string_view component) {
      if (component == "module") wrapping_.insert(before);
    });
  }
  const auto contradict = [&](std::string_view before) { wrapping_.erase(before); };
  for (std::size_t i = 0; i < names.size() && !wrapping_.empty(); ++i) {
    for_each_inner(names[i], [&](std::string_view before, std::string_view component) {
      if (component != "module") contradict(before);
    });
    contradict(names[i].substr(0, names[i].rfind('.') + 1));
  }
}

bool Wrappers::is_wrapper(std::string_view component, std::string_view before) const {
  return std::ranges::find(kUnmistakable, component) != kUnmistakable.end() ||
         (component == "module" && wrapping_.contains(before));
}

void Wrappers::unwrap(PathName& name, std::string_view original) const {
  std::size_t at = 0;
  for_each_inner(original, [&](std::string_view before, std::string_view component) {
    if (is_wrapper(component, before))
      name.erase(at, at + 1);
    else
      ++at;
  });
}

}  // namespace cairn
