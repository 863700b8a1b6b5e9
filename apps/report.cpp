// SPDX-License-Identifier: BSD-3-Clause
#include "report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.hpp"
#include "json_text.hpp"
#include "parallel/agree.hpp"

namespace cairn {
namespace {

constexpr std::size_t kFailuresShown = 8;

std::vector<std::string> other_failures(const Error& error) {
  std::vector<std::string> lines;
  const auto& failures = error.failures();
  for (std::size_t i = 1; i < failures.size() && lines.size() < kFailuresShown; ++i) {
    if (failures[i].message == failures[0].message) continue;
    lines.push_back(fmt::format("rank {}: {}", failures[i].rank, failures[i].message));
  }
  return lines;
}

}  // namespace

std::string one_line(std::string_view message) {
  std::string out;
  while (!message.empty()) {
    const auto end = std::min(message.find('\\'), message.size());
    out += escape_name(message.substr(0, end));
    if (end == message.size()) break;
    out += '\\';
    message.remove_prefix(end + 1);
  }
  return out;
}

void say(std::string_view text) {
  const auto line = fmt::format("cairn: {}\n", one_line(text));
  // A standard error that takes nothing is nobody's concern.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

void say_notes(const Context& context, std::string_view kind, const std::vector<std::string>& notes) {
  if (!context.speaks() || context.flags.quiet) return;
  for (const auto& note : notes) say(fmt::format("{}: {}", kind, note));
}

int run_on_speaker(Context& context, std::string_view step, const std::function<int(StandardOutput&)>& body) {
  const Bytes status = on_root(step, context.comm, 0, [&] {
    const int result = body(context.out);
    context.out.finish();
    return Bytes{static_cast<std::byte>(result)};
  });
  return std::to_integer<int>(status.at(0));
}

void say_error(StandardOutput& out, bool json, const Error& error) {
  say(error.what());
  for (const auto& line : other_failures(error)) say(line);
  if (!json || out.broken()) return;
  try {
    out.write(fmt::format("{{\"error\": {{\"kind\": {}, \"message\": {}}}}}\n",
                          json_string(to_string(error.kind())), json_string(error.what())));
    out.finish();
  } catch (const std::exception& failure) {
    say(failure.what());
  }
}

int exit_status(const Error& error, Phase phase) {
  return phase == Phase::command_line || error.kind() == ErrorKind::invalid_argument ? 2 : 1;
}

}  // namespace cairn
