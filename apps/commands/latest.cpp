// SPDX-License-Identifier: BSD-3-Clause
#include "base/fail.hpp"
#include "commands/commands.hpp"
#include "commands/passed.hpp"
#include "json_text.hpp"

namespace cairn {
namespace {

struct Wanted {
  std::string root;
  bool verify;
};

void print_json(StandardOutput& out, const LatestReport& report) {
  out.write(fmt::format(
      "{{\"path\": {}, \"iteration\": {}, \"components\": {},\n \"skipped\": {}, \"warnings\": {}}}\n",
      json_string(report.path), report.iteration ? fmt::to_string(*report.iteration) : "null",
      json_array(report.components), passed_json(report.skipped), json_array(report.warnings)));
}

int run(Context& context, const Wanted& wanted) {
  const auto report = find_latest(context.comm, posix_file_system(), wanted.root, wanted.verify);
  return run_on_speaker(context, "printing the result", [&](StandardOutput& out) {
    say_notes(context, "warning", report.warnings);
    say_passed(context, "note", "skipped", report.skipped);
    if (report.path.empty())
      fail(ErrorKind::not_found, "{} has no complete checkpoint ({} skipped)", wanted.root,
           report.skipped.size());
    if (context.flags.json)
      print_json(out, report);
    else
      out.write(report.path + "\n");
    return 0;
  });
}

Action understand(const Grammar& grammar, const Parsed& parsed) {
  grammar.expect_operands(parsed, 1, 1);
  const Wanted wanted{path_operand(parsed.operands[0]), parsed.options["verify"].as<bool>()};
  return [wanted](Context& context) { return run(context, wanted); };
}

}  // namespace

Command latest_command() {
  Grammar grammar("latest", "ROOT", "Prints the newest complete iteration of a training tree.");
  grammar.add()("verify", flag(), "compare every stored CRC-32 too");
  return {std::move(grammar), understand};
}

}  // namespace cairn
