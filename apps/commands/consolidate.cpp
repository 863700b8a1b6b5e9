// SPDX-License-Identifier: BSD-3-Clause
#include "cairn/checkpoint.hpp"
#include "commands/commands.hpp"
#include "commands/run_command.hpp"

namespace cairn {
namespace {

struct Wanted {
  ConsolidateOptions options;
  ProgressForm progress;
  bool dry_run;
};

int run(Context& context, const Wanted& wanted) {
  if (wanted.dry_run)
    return print_plan(context, call_verb(dry_run_consolidate, context, wanted.options, wanted.progress));
  const auto report = call_verb(consolidate, context, wanted.options, wanted.progress);
  return print_report(context, report, wanted.progress, wanted.options.resume);
}

Action understand(const Grammar& grammar, const Parsed& parsed) {
  Wanted wanted;
  read_run_options(grammar, parsed, wanted.options, true);
  wanted.options.fabric = parsed.options["fabric"].as<bool>();
  wanted.options.whole_iteration = parsed.options["whole-iteration"].as<bool>();
  wanted.options.resume = parsed.options["resume"].as<bool>();
  wanted.options.ema = parsed.options["ema"].as<bool>();
  wanted.options.more_outputs = parsed.texts("output");
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
  wanted.dry_run = is_dry_run(parsed);
  return [wanted](Context& context) { return run(context, wanted); };
}

}  // namespace

Command consolidate_command() {
  Grammar grammar("consolidate", "SRC [DST]",
                  "Writes a sharded checkpoint as one torch file that plain torch.load opens.");
  add_output_options(grammar);
  grammar.add()("resume", flag(),
                "keep a journal, so that a run that was stopped can be continued; continue it");
  add_name_options(grammar);
  add_fabric_option(grammar);
  add_whole_iteration_option(grammar);
  grammar.add()("ema", flag(), "also model_ema_fp32.pth and model_ema_bf16.pth, of what net_ema.* holds")(
      "output", words("FILE:RULES"),
      "a further file from the same read: select=GLOB,rename=FROM=TO,cast=DTYPE…")(
      "copy", word("HOW")->default_value("auto"),
      "auto, user: through buffers; kernel: copy_file_range or reflink where the bytes allow it, unverified");
  add_file_options(grammar);
  add_run_options(grammar);
  return {std::move(grammar), understand};
}

}  // namespace cairn
