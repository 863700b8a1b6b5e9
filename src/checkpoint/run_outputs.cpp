// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/run_outputs.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "plan/names/name_list.hpp"

namespace cairn {

void warn_of_map(const OutputRequest& request, std::span<const std::string> unused,
                 std::vector<std::string>& warnings) {
  if (unused.empty()) return;
  warnings.push_back(
      fmt::format("{}: nothing is called {}", escape_name(request.map_file), list_names(unused)));
}

}  // namespace cairn
