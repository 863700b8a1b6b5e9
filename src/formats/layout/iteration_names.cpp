// SPDX-License-Identifier: BSD-3-Clause
#include "formats/layout/iteration_names.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace cairn::layout {
namespace {

constexpr std::array<std::string_view, 3> kPrefixes = {"iter_", "step-", "step_"};

}  // namespace

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == name.npos;
}

bool is_numbered(std::string_view name, std::string_view prefix) {
  const auto number = name.starts_with(prefix) ? name.substr(prefix.size()) : std::string_view();
  return !number.empty() && number.find_first_not_of("0123456789") == number.npos;
}

bool is_iteration_name(std::string_view name) {
  return std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return is_numbered(name, prefix); });
}

std::optional<std::int64_t> iteration_number(std::string_view name) {
  if (!is_iteration_name(name)) return std::nullopt;
  const auto digits = name.substr(kPrefixes[0].size());  // all are of this length
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc()) return std::nullopt;
  return number;
}

bool is_passing_name(std::string_view name) {
  return name.starts_with('.') && (name.ends_with(".cairn-part") || name.ends_with(".cairn-removed"));
}

bool is_component(std::string_view name) {
  return name == "optim" || name == "scheduler" || name == "trainer" || name.starts_with("optim_") ||
         name.starts_with("scheduler_");
}

std::string pointed_name(const Folder& checkpoints) {
  auto text = checkpoints.head(kPointer, 4096);
  text.erase(std::min(text.find_last_not_of(" \t\r\n") + 1, text.size()));
  return text;
}

}  // namespace cairn::layout
