// SPDX-License-Identifier: BSD-3-Clause
#include <bit>

#include "cairn/checkpoint.hpp"
#include "commands/commands.hpp"
#include "commands/dry_run.hpp"
#include "commands/run_command.hpp"

namespace cairn {
namespace {

struct Wanted {
  ConsolidateOptions options;
  ProgressForm progress;
  bool dry_run;
};

int run_dry(Context& context, const Wanted& wanted) {
  const auto report = call_verb(dry_run_consolidate, context, wanted.options, wanted.progress);
  return run_on_speaker(context, "printing the plan", [&](StandardOutput& out) {
    say_notes(context, "warning", report.warnings);
    say_notes(context, "skipped", shortened(report.skipped));
    (context.flags.json ? print_dry_run_json : print_dry_run)(out, report);
    return 0;
  });
}

int run(Context& context, const Wanted& wanted) {
  if (wanted.dry_run) return run_dry(context, wanted);
  const auto report = call_verb(consolidate, context, wanted.options, wanted.progress);
  return print_report(context, report, wanted.progress, wanted.options.resume);
}

Action understand(const Grammar& grammar, const Parsed& parsed) {
  Wanted wanted;
  read_run_options(grammar, parsed, wanted.options);
  wanted.options.resume = parsed.options["resume"].as<bool>();
  wanted.options.ema = parsed.options["ema"].as<bool>();
  wanted.options.more_outputs = parsed.texts("output");
  wanted.options.alignment =
      static_cast<std::uint32_t>(number_option("--align", parsed.text("align"), 64, 32768));
  if (!std::has_single_bit(wanted.options.alignment)) {
    grammar.refuse(fmt::format("--align '{}': a power of two is needed", parsed.text("align")));
  }
  wanted.options.objects = one_of<ObjectPolicy>(
      grammar, parsed, "objects",
      {{"keep", ObjectPolicy::keep}, {"safe", ObjectPolicy::safe}, {"drop", ObjectPolicy::drop}});
  wanted.options.copy = one_of<CopyMode>(
      grammar, parsed, "copy",
      {{"auto", CopyMode::automatic}, {"user", CopyMode::user}, {"kernel", CopyMode::kernel}});
  if (wanted.options.copy == CopyMode::kernel && wanted.options.verify_source &&
      !parsed.options["verify-source"].defaulted()) {
    grammar.refuse("--copy kernel does not see the bytes: --verify-source on is for --copy user");
  }
  if (wanted.options.copy == CopyMode::kernel && wanted.options.write == WriteMode::gather) {
    grammar.refuse(
        "--copy kernel needs a rank that sees source and output: --write gather is for --copy user");
  }
  wanted.progress = progress_form(parsed.text("progress"));
  wanted.dry_run = parsed.options["dry-run"].as<bool>();
  return [wanted](Context& context) { return run(context, wanted); };
}

}  // namespace

Command consolidate_command() {
  Grammar grammar("consolidate", "SRC DST",
                  "Writes a sharded checkpoint as one torch file that plain torch.load opens.");
  add_output_options(grammar);
  grammar.add()("resume", flag(),
                "keep a journal, so that a run that was stopped can be continued; continue it");
  add_name_options(grammar);
  grammar.add()("ema", flag(), "also model_ema_fp32.pth and model_ema_bf16.pth, of what net_ema.* holds")(
      "output", words("FILE:RULES"),
      "a further file from the same read: select=GLOB,rename=FROM=TO,cast=DTYPE…")(
      "objects", word("WHAT")->default_value("keep"),
      "values that are no tensors: keep; safe: those that torch.load refuses by default go into a second "
      "file; "
      "drop")("align", word("N")->default_value("64"), "alignment of payloads, a power of two up to 32768")(
      "copy", word("HOW")->default_value("auto"),
      "auto, user: through buffers; kernel: copy_file_range or reflink where the bytes allow it, unverified");
  add_run_options(grammar);
  grammar.add()("dry-run", flag(), "print what would be read and written, and make nothing");
  return {std::move(grammar), understand};
}

}  // namespace cairn
