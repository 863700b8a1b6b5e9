// SPDX-License-Identifier: BSD-3-Clause
#include "plan/names/name_list.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace cairn {

std::string list_names(std::span<const std::string> names) {
  constexpr std::size_t kShown = 8;
  std::string out;
  for (const std::string& name : names.first(std::min(kShown, names.size())))
    out += fmt::format("{}'{}'", out.empty() ? "" : ", ", escape_name(name));
  if (names.size() > kShown) out += fmt::format(" and {} more", names.size() - kShown);
  return out;
}

}  // namespace cairn
