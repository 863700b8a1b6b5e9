// SPDX-License-Identifier: BSD-3-Clause
#include "commands/passed.hpp"

#include <fmt/format.h>

#include "json_text.hpp"

namespace cairn {

void say_passed(const Context& context, std::string_view kind, std::string_view what,
                const std::vector<PassedIteration>& passed) {
  std::vector<std::string> lines;
  for (const auto& [path, reason] : passed) lines.push_back(fmt::format("{}: {}: {}", path, what, reason));
  say_notes(context, kind, lines);
}

std::string passed_json(const std::vector<PassedIteration>& passed) {
  std::string text = "[";
  for (const auto& [path, reason] : passed) {
    if (text.size() > 1) text += ", ";
    text += fmt::format("{{\"path\": {}, \"reason\": {}}}", json_string(path), json_string(reason));
  }
  return text + "]";
}

}  // namespace cairn
