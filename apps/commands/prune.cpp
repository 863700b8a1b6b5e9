// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <limits>

#include "commands/commands.hpp"
#include "commands/passed.hpp"
#include "json_text.hpp"

namespace cairn {
namespace {

constexpr int kMost = std::numeric_limits<int>::max();

struct Wanted {
  std::string root;
  RetentionRule rule;
  bool dry_run;
};

void print_json(StandardOutput& out, const PruneReport& report) {
  out.write(fmt::format("{{\"removed\": {},\n \"kept\": {},\n \"in_use\": {},\n \"broken\": {},\n",
                        json_array(report.removed), json_array(report.kept), passed_json(report.in_use),
                        passed_json(report.broken)));
  out.write(fmt::format(" \"failed\": {}, \"warnings\": {}}}\n", passed_json(report.failed),
                        json_array(report.warnings)));
}

int run(Context& context, const Wanted& wanted) {
  return run_on_speaker(context, "pruning", [&](StandardOutput& out) {
    const auto report = prune(posix_file_system(), wanted.root, wanted.rule, wanted.dry_run);
    say_notes(context, "warning", report.warnings);
    say_passed(context, "note", "not removed", report.in_use);
    say_passed(context, "warning", "not complete, left alone", report.broken);
    for (const auto& [path, reason] : report.failed)
      say(fmt::format("{}: could not be removed: {}", path, reason));
    if (context.flags.json)
      print_json(out, report);
    else
      for (const std::string& path : report.removed) out.write(path + "\n");
    return report.failed.empty() ? 0 : 1;
  });
}

Action understand(const Grammar& grammar, const Parsed& parsed) {
  grammar.expect_operands(parsed, 1, 1);
  if (!parsed.has("keep")) grammar.refuse("prune needs --keep N");
  Wanted wanted{path_operand(parsed.operands[0]), {}, parsed.options["dry-run"].as<bool>()};
  wanted.rule.keep_last = number_option("--keep", parsed.text("keep"), 1, kMost);
  if (parsed.has("keep-every"))
    wanted.rule.keep_every = number_option("--keep-every", parsed.text("keep-every"), 1, kMost);
  return [wanted](Context& context) { return run(context, wanted); };
}

}  // namespace

Command prune_command() {
  Grammar grammar("prune", "ROOT", "Removes older complete iterations of a training tree.");
  grammar.add()("keep", word("N"), "how many of the newest complete iterations stay, 1 at least")(
      "keep-every", word("K"), "iterations whose number is a multiple of K stay too")(
      "dry-run", flag(), "remove nothing, print what would be removed");
  return {std::move(grammar), understand};
}

}  // namespace cairn
