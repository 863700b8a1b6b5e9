// SPDX-License-Identifier: BSD-3-Clause
#include "commands/run_command.hpp"

#include <bit>

#include "base/text.hpp"
#include "commands/dry_run.hpp"
#include "json_text.hpp"

namespace cairn {
namespace {

constexpr int kMostThreads = 64;
constexpr int kLongestVisibilityTimeout_s = 86400, kLongestStallTimeout_s = 604800;
constexpr std::size_t kSkippedShown = 10;

std::string closing_line(const ConsolidateReport& report) {
  std::string outputs;
  for (const auto& output : report.outputs) {
    outputs += fmt::format("{}{}: {}", outputs.empty() ? "" : ", ", output.path, human_bytes(output.bytes));
  }
  const double rate =
      report.seconds > 0 ? static_cast<double>(report.written_bytes) / report.seconds / 1e9 : 0;
  const std::string before = report.resumed_bytes == 0 ? ""
                                                       : fmt::format(", {} of it by earlier runs",
                                                                     human_bytes(report.resumed_bytes));
  return fmt::format("{}{} in {:.2f} s, {:.2f} GB/s, peak RSS {}, {} rank{} of {} thread{}{}", outputs,
                     before, report.seconds, rate, human_bytes(report.peak_rss_bytes), report.ranks,
                     report.ranks == 1 ? "" : "s", report.threads, report.threads == 1 ? "" : "s",
                     report.synced ? "" : ", not synced");
}

void print_json(StandardOutput& out, const ConsolidateReport& report, bool resume) {
  out.write("{\"outputs\": [");
  const char* separator = "";
  for (const auto& [path, bytes, tensors, objects] : report.outputs) {
    out.write(fmt::format("{}{{\"path\": {}, \"bytes\": {}, \"tensors\": {}, \"objects\": {}}}", separator,
                          json_string(path), bytes, tensors, objects));
    separator = ", ";
  }
  out.write(fmt::format("],\n \"read_bytes\": {}, \"written_bytes\": {}, \"verified_bytes\": {},\n",
                        report.read_bytes, report.written_bytes, report.verified_bytes));
  if (resume) out.write(fmt::format(" \"resumed_bytes\": {},\n", report.resumed_bytes));
  out.write(fmt::format(" \"seconds\": {:.6f}, \"peak_rss_bytes\": {}, \"ranks\": {}, \"threads\": {},\n",
                        report.seconds, report.peak_rss_bytes, report.ranks, report.threads));
  out.write(fmt::format(" \"skipped\": {},\n \"warnings\": {}}}\n", json_array(report.skipped),
                        json_array(report.warnings)));
}

NameOptions name_options(const Parsed& parsed) {
  NameOptions names;
  names.select = parsed.texts("select");
  names.exclude = parsed.texts("exclude");
  names.unwrap = parsed.options["unwrap"].as<bool>();
  names.strip_prefix = parsed.texts("strip-prefix");
  names.rename = parsed.texts("rename");
  if (parsed.has("map")) names.map_file = parsed.text("map");
  names.cast = parsed.texts("cast");
  return names;
}

void read_file_options(const Grammar& grammar, const Parsed& parsed, ConsolidateOptions& options) {
  options.alignment = static_cast<std::uint32_t>(number_option("--align", parsed.text("align"), 64, 32768));
  if (!std::has_single_bit(options.alignment))
    grammar.refuse(fmt::format("--align '{}': a power of two is needed", parsed.text("align")));
  options.objects = one_of<ObjectPolicy>(
      grammar, parsed, "objects",
      {{"keep", ObjectPolicy::keep}, {"safe", ObjectPolicy::safe}, {"drop", ObjectPolicy::drop}});
}

}  // namespace

std::vector<std::string> shortened(std::vector<std::string> lines) {
  const auto count = lines.size();
  if (count > kSkippedShown) {
    lines.resize(kSkippedShown);
    lines.push_back(fmt::format("{} more; --json lists all", count - kSkippedShown));
  }
  return lines;
}

int print_report(Context& context, const ConsolidateReport& report, ProgressForm progress, bool resume) {
  return run_on_speaker(context, "printing the result", [&](StandardOutput& out) {
    say_notes(context, "warning", report.warnings);
    say_notes(context, "skipped", shortened(report.skipped));
    if (context.flags.json) print_json(out, report, resume);
    if (progress != ProgressForm::none) say(closing_line(report));
    return 0;
  });
}

int print_plan(Context& context, const DryRunReport& report) {
  return run_on_speaker(context, "printing the plan", [&](StandardOutput& out) {
    say_notes(context, "warning", report.warnings);
    say_notes(context, "skipped", shortened(report.skipped));
    (context.flags.json ? print_dry_run_json : print_dry_run)(out, report);
    return 0;
  });
}

void add_output_options(Grammar& grammar) {
  grammar.add()("overwrite", flag(), "replace an existing output, once the new one is complete")(
      "threads", word("N"), "I/O threads of a rank (default: its cores, 1 to 8)")(
      "max-memory", word("SIZE")->default_value("64MiB"), "most memory for data buffers of a rank")(
      "no-sync", flag(), "publish without fsync")("flat", flag(),
                                                  "flat names as keys, not the recorded nesting");
}

void add_name_options(Grammar& grammar) {
  grammar.add()("select", words("GLOB"), "keep only names that match one of these")(
      "exclude", words("GLOB"), "drop names that match one of these")(
      "unwrap", flag(), "drop the components that wrapping modules put into names")(
      "strip-prefix", words("P"), "drop these leading components")(
      "rename", words("FROM=TO"), "other leading components")("map", word("FILE"),
                                                              "other names, old<TAB>new a line")(
      "dequant", flag(), "8-bit floats with a companion NAME_scale_inv as bfloat16, before any other rule")(
      "cast", words("[GLOB=]DTYPE"),
      "write floating-point tensors as float32, float16 or bfloat16; GLOB=keep");
}

void add_file_options(Grammar& grammar) {
  grammar.add()("objects", word("WHAT")->default_value("keep"),
                "values that are no tensors: keep; safe: those that torch.load refuses by default go into a "
                "second file; drop")("align", word("N")->default_value("64"),
                                     "alignment of payloads in a torch file, a power of two up to 32768");
}

void add_journal_option(Grammar& grammar) {
  grammar.add()("resume", flag(),
                "keep a journal, so that a run that was stopped can be continued; continue it");
}

void add_torch_file_options(Grammar& grammar) {
  grammar.add()("ema", flag(), "also model_ema_fp32.pth and model_ema_bf16.pth, of what net_ema.* holds")(
      "output", words("FILE:RULES"),
      "a further file from the same read: select=GLOB,rename=FROM=TO,cast=DTYPE…")(
      "copy", word("HOW")->default_value("auto"),
      "auto, user: through buffers; kernel: copy_file_range or reflink where the bytes allow it, unverified");
}

void add_run_options(Grammar& grammar) {
  grammar.add()("verify-source", word("on|off")->default_value("on"),
                "compare the CRCs of items that are read completely (off with --copy kernel)")(
      "write", word("HOW")->default_value("auto"),
      "shared: all ranks write; gather: ranks read what they see, rank 0 writes (node-local disks); auto: "
      "gather when some rank does not see a shard")(
      "visibility-timeout", word("SECONDS")->default_value("30"),
      "how long files may take to appear where they are needed")(
      "stall-timeout", word("SECONDS")->default_value("0"),
      "name a rank that makes no progress for so long, and abort (0: never)")(
      "progress", word("WHEN")->default_value("auto"),
      "auto: a bar on a terminal; always: also lines every few seconds elsewhere; never")(
      "dry-run", flag(), "print what would be read and written, and make nothing");
}

void add_fabric_option(Grammar& grammar) {
  grammar.add()("fabric", flag(), "of a Lightning folder: the keys as they are stored, not the Trainer's");
}

void add_whole_iteration_option(Grammar& grammar) {
  grammar.add()("whole-iteration", flag(),
                "all components of a training iteration, each under a key of its name");
}

void read_torch_file_options(const Grammar& grammar, const Parsed& parsed, ConsolidateOptions& options) {
  options.resume = parsed.options["resume"].as<bool>();
  options.ema = parsed.options["ema"].as<bool>();
  options.more_outputs = parsed.texts("output");
  options.copy = one_of<CopyMode>(
      grammar, parsed, "copy",
      {{"auto", CopyMode::automatic}, {"user", CopyMode::user}, {"kernel", CopyMode::kernel}});
  if (options.copy != CopyMode::kernel) return;
  if (options.verify_source && !parsed.options["verify-source"].defaulted())
    grammar.refuse("--copy kernel does not see the bytes: --verify-source on is for --copy user");
  if (options.write == WriteMode::gather) {
    grammar.refuse(
        "--copy kernel needs a rank that sees source and output: --write gather is for --copy user");
  }
}

void read_run_options(const Grammar& grammar, const Parsed& parsed, ConsolidateOptions& options,
                      bool may_choose) {
  grammar.expect_operands(parsed, may_choose ? 1 : 2, 2);
  options.source = path_operand(parsed.operands[0]);
  if (parsed.operands.size() > 1) options.destination = path_operand(parsed.operands[1]);
  options.overwrite = parsed.options["overwrite"].as<bool>();
  options.sync = !parsed.options["no-sync"].as<bool>();
  options.flat = parsed.options["flat"].as<bool>();
  options.max_memory = size_option("--max-memory", parsed.text("max-memory"));
  if (parsed.has("threads"))
    options.threads = number_option("--threads", parsed.text("threads"), 1, kMostThreads);
  options.names = name_options(parsed);
  options.dequant = parsed.options["dequant"].as<bool>();
  options.verify_source = one_of<bool>(grammar, parsed, "verify-source", {{"on", true}, {"off", false}});
  options.write = one_of<WriteMode>(
      grammar, parsed, "write",
      {{"auto", WriteMode::automatic}, {"shared", WriteMode::shared}, {"gather", WriteMode::gather}});
  options.visibility_timeout_s = number_option("--visibility-timeout", parsed.text("visibility-timeout"), 0,
                                               kLongestVisibilityTimeout_s);
  options.stall_timeout_s =
      number_option("--stall-timeout", parsed.text("stall-timeout"), 0, kLongestStallTimeout_s);
  read_file_options(grammar, parsed, options);
}

}  // namespace cairn
