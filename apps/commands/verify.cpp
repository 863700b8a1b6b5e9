// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include "base/text.hpp"
#include "cairn/checkpoint.hpp"
#include "commands/commands.hpp"
#include "json_text.hpp"

namespace cairn {
namespace {

std::string plural(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string summary(const VerifyReport& report) {
  return fmt::format("whole: {}, {}, {} in {}, {}; structure only, no payload was read\n",
                     plural(report.tensors, "tensor"), plural(report.objects, "object"),
                     plural(report.chunks, "chunk"), plural(report.files, "file"),
                     human_bytes(report.payload_bytes));
}

void print_text(StandardOutput& out, const VerifyReport& report) {
  if (report.faults.empty()) out.write(summary(report));
  for (const auto& fault : report.faults.faults()) {
    out.write(fmt::format("{}\t{}\t{}\t{}\t{}\n", to_string(fault.kind), escape_name(fault.name),
                          escape_name(fault.file), fault.byte_offset, one_line(fault.message)));
  }
}

// Without the payload no item is checked: the report is complete only where there is none.
void print_json(StandardOutput& out, const VerifyReport& report, const std::vector<std::string>& warnings) {
  const auto unchecked = report.chunks + report.objects;
  out.write(fmt::format(
      "{{\"ok\": {}, \"complete\": {}, \"checked_bytes\": 0, \"unchecked_items\": {},\n \"faults\": [",
      report.faults.empty(), unchecked == 0, unchecked));
  const char* separator = "\n  ";
  for (const auto& fault : report.faults.faults()) {
    out.write(
        fmt::format("{}{{\"kind\": {}, \"name\": {}, \"file\": {}, \"byte_offset\": {}, \"message\": {}}}",
                    separator, json_string(to_string(fault.kind)), json_string(fault.name),
                    json_string(fault.file), fault.byte_offset, json_string(fault.message)));
    separator = ",\n  ";
  }
  out.write(fmt::format("],\n \"warnings\": {}}}\n", json_array(warnings)));
}

int run(Context& context, const std::string& path) {
  return run_on_speaker(context, "verifying", [&](StandardOutput& out) {
    auto report = verify_structure(posix_file_system(), path);
    auto& warnings = report.warnings;
    const auto unlisted = report.faults.count() - report.faults.faults().size();
    if (unlisted > 0) warnings.push_back(plural(unlisted, "further fault") + " not listed");
    say_notes(context, "warning", warnings);
    if (context.flags.json)
      print_json(out, report, warnings);
    else
      print_text(out, report);
    if (report.faults.empty()) return 0;
    say(fmt::format("{}: {}", path, plural(report.faults.count(), "fault")));
    return 1;
  });
}

Action understand(const Grammar& grammar, const Parsed& parsed) {
  grammar.expect_operands(parsed, 1, 1);
  if (!parsed.options["metadata-only"].as<bool>()) {
    grammar.refuse("verify does not check the payload yet: --metadata-only is needed");
  }
  return [path = path_operand(parsed.operands[0])](Context& context) { return run(context, path); };
}

}  // namespace

Command verify_command() {
  Grammar grammar("verify", "--metadata-only PATH",
                  "Checks a checkpoint: names, chunk coverage, bounds, file sizes. One line a fault.");
  grammar.add()("metadata-only", flag(),
                "check the structure, read no payload (needed: more is not built yet)");
  return {std::move(grammar), understand};
}

}  // namespace cairn
