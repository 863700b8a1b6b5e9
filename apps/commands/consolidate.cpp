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
  read_torch_file_options(grammar, parsed, wanted.options);
  wanted.progress = progress_form(parsed.text("progress"));
  wanted.dry_run = is_dry_run(parsed);
  return [wanted](Context& context) { return run(context, wanted); };
}

}  // namespace

Command consolidate_command() {
  Grammar grammar("consolidate", "SRC [DST]",
                  "Writes a sharded checkpoint as one torch file that plain torch.load opens.");
  add_output_options(grammar);
  add_journal_option(grammar);
  add_name_options(grammar);
  add_fabric_option(grammar);
  add_whole_iteration_option(grammar);
  add_torch_file_options(grammar);
  add_file_options(grammar);
  add_run_options(grammar);
  return {std::move(grammar), understand};
}

}  // namespace cairn
