// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <tuple>

#include "base/text.hpp"
#include "cairn/checkpoint.hpp"
#include "commands/commands.hpp"
#include "json_text.hpp"
#include "progress.hpp"

namespace cairn {
namespace {

constexpr int kMostThreads = 64;

struct Wanted {
  VerifyOptions options;
  ProgressForm progress;
};

std::string plural(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string summary(const VerifyReport& report, bool metadata_only) {
  std::vector<std::string> held;
  if (report.components.size() > report.torch_files) {
    held = {plural(report.tensors, "tensor"), plural(report.objects, "object"),
            plural(report.chunks, "chunk") + " in " + plural(report.files, "file")};
  }
  if (report.torch_files > 0) held.push_back(plural(report.torch_files, "torch file"));
  auto text = fmt::format("whole: {}, {}", fmt::join(held, ", "), human_bytes(report.payload_bytes));
  if (report.components.size() > 1) {
    text += fmt::format(" in {} checkpoints:", report.components.size());
    for (const auto& path : report.components) text += " " + escape_name(path);
  }
  text += metadata_only ? "; structure only, no payload was read"
                        : fmt::format("; CRC-32 of {} compared", human_bytes(report.checked_bytes));
  return text + "\n";
}

std::string closing_line(const std::string& path, const VerifyReport& report) {
  const double rate = report.seconds > 0 ? static_cast<double>(report.read_bytes) / report.seconds / 1e9 : 0;
  return fmt::format("{}: {} read in {:.2f} s, {:.2f} GB/s, peak RSS {}, {} of {}", path,
                     human_bytes(report.read_bytes), report.seconds, rate, human_bytes(report.peak_rss_bytes),
                     plural(static_cast<std::uint64_t>(report.ranks), "rank"),
                     plural(static_cast<std::uint64_t>(report.threads), "thread"));
}

void print_text(StandardOutput& out, const VerifyReport& report, bool metadata_only) {
  if (report.faults.empty()) out.write(summary(report, metadata_only));
  for (const auto& fault : report.faults.faults()) {
    out.write(fmt::format("{}\t{}\t{}\t{}\t{}\n", to_string(fault.kind), escape_name(fault.name),
                          escape_name(fault.file), fault.byte_offset, one_line(fault.message)));
  }
}

void print_json(StandardOutput& out, const VerifyReport& report) {
  out.write(fmt::format(
      "{{\"ok\": {}, \"complete\": {}, \"checked_bytes\": {}, \"unchecked_items\": {},\n \"faults\": [",
      report.faults.empty(), report.unchecked_items == 0, report.checked_bytes, report.unchecked_items));
  const char* separator = "\n  ";
  for (const auto& fault : report.faults.faults()) {
    out.write(
        fmt::format("{}{{\"kind\": {}, \"name\": {}, \"file\": {}, \"byte_offset\": {}, \"message\": {}}}",
                    separator, json_string(to_string(fault.kind)), json_string(fault.name),
                    json_string(fault.file), fault.byte_offset, json_string(fault.message)));
    separator = ",\n  ";
  }
  out.write(fmt::format("],\n \"warnings\": {}}}\n", json_array(report.warnings)));
}

void say_what_was_left_out(Context& context, VerifyReport& report, bool metadata_only) {
  const auto unlisted = report.faults.count() - report.faults.faults().size();
  if (unlisted > 0) report.warnings.push_back(plural(unlisted, "further fault") + " not listed");
  say_notes(context, "warning", report.warnings);
  if (report.unchecked_items > 0 && !metadata_only) {
    say_notes(context, "unchecked", {plural(report.unchecked_items, "item") + " without a stored CRC-32"});
  }
}

VerifyReport check(Context& context, const Wanted& wanted) {
  auto options = wanted.options;
  ProgressDisplay display(context.speaks() ? wanted.progress : ProgressForm::none);
  if (wanted.progress != ProgressForm::none)
    options.progress = [&](const Progress& progress) { display.show(progress); };
  return verify(context.comm, posix_file_system(), options);
}

int run(Context& context, const Wanted& wanted) {
  auto report = check(context, wanted);
  const auto& [path, metadata_only] = std::tie(wanted.options.path, wanted.options.metadata_only);
  return run_on_speaker(context, "printing the result", [&](StandardOutput& out) {
    say_what_was_left_out(context, report, metadata_only);
    if (context.flags.json)
      print_json(out, report);
    else
      print_text(out, report, metadata_only);
    if (wanted.progress != ProgressForm::none) say(closing_line(path, report));
    if (report.faults.empty()) return 0;
    say(fmt::format("{}: {}", path, plural(report.faults.count(), "fault")));
    return 1;
  });
}

Action understand(const Grammar& grammar, const Parsed& parsed) {
  grammar.expect_operands(parsed, 1, 1);
  Wanted wanted;
  wanted.options.path = path_operand(parsed.operands[0]);
  wanted.options.metadata_only = parsed.options["metadata-only"].as<bool>();
  wanted.options.strict = parsed.options["strict"].as<bool>();
  if (wanted.options.metadata_only && wanted.options.strict) {
    grammar.refuse("--metadata-only and --strict exclude each other");
  }
  wanted.options.max_memory = size_option("--max-memory", parsed.text("max-memory"));
  if (parsed.has("threads")) {
    wanted.options.threads = number_option("--threads", parsed.text("threads"), 1, kMostThreads);
  }
  wanted.progress = progress_form(parsed.text("progress"));
  return [wanted](Context& context) { return run(context, wanted); };
}

}  // namespace

Command verify_command() {
  Grammar grammar(
      "verify", "PATH",
      "Proves a checkpoint whole: structure, chunk coverage, sizes, every stored CRC-32. One line a "
      "fault.");
  grammar.add()("metadata-only", flag(), "check the structure, read no payload")(
      "strict", flag(), "an item without a CRC-32 is a fault")(
      "threads", word("N"), "I/O threads of a rank (default: its cores, 1 to 8)")(
      "max-memory", word("SIZE")->default_value("64MiB"), "most memory for data buffers of a rank")(
      "progress", word("WHEN")->default_value("auto"),
      "auto: a bar on a terminal; always: also lines every few seconds elsewhere; never");
  return {std::move(grammar), understand};
}

}  // namespace cairn
