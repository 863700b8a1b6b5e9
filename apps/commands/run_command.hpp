// SPDX-License-Identifier: BSD-3-Clause
// What consolidate, convert and reshard have in common: options, progress, the report.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/checkpoint.hpp"
#include "cairn/storage.hpp"
#include "command_line.hpp"
#include "progress.hpp"
#include "report.hpp"

namespace cairn {

/// The options that all of them take, in the groups that --help shows.
void add_output_options(Grammar& grammar);
void add_name_options(Grammar& grammar);
void add_file_options(Grammar& grammar);
void add_run_options(Grammar& grammar);

/// Of Lightning folders.
void add_fabric_option(Grammar& grammar);
/// Of training trees.
void add_whole_iteration_option(Grammar& grammar);

/// Of results that are torch files, or may be.
void add_journal_option(Grammar& grammar);
void add_torch_file_options(Grammar& grammar);
void read_torch_file_options(const Grammar& grammar, const Parsed& parsed, ConsolidateOptions& options);

/// Reads them, and the two operands, of which the second may be missing where `may_choose`.
void read_run_options(const Grammar& grammar, const Parsed& parsed, ConsolidateOptions& options,
                      bool may_choose = false);
inline bool is_dry_run(const Parsed& parsed) { return parsed.options["dry-run"].as<bool>(); }

/// The value that the option's word stands for. Throws invalid_argument that lists the words.
template <class Choice>
Choice one_of(const Grammar& grammar, const Parsed& parsed, const char* option,
              std::initializer_list<std::pair<std::string_view, Choice>> choices) {
  std::string names;
  for (const auto& [name, choice] : choices) {
    if (name == parsed.text(option)) return choice;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  grammar.refuse(fmt::format("--{} '{}': one of {} is needed", option, parsed.text(option), names));
}

/// Calls the verb with what it is to say meanwhile.
template <class Verb, class Options>
auto call_verb(Verb verb, Context& context, Options options, ProgressForm progress) {
  ProgressDisplay display(context.speaks() ? progress : ProgressForm::none);
  if (progress != ProgressForm::none) options.progress = [&](const Progress& done) { display.show(done); };
  options.note = [&](const std::string& text) { say_notes(context, "note", {text}); };
  options.stalled = [&](const Error& error) {
    display.clear();
    say_error(context.out, context.flags.json, error);
  };
  return verb(context.comm, posix_file_system(), options);
}

/// On the speaker: notes, then JSON where it is asked for (with resumed_bytes when `resume`), then the
/// closing line.
int print_report(Context& context, const ConsolidateReport& report, ProgressForm progress, bool resume);

/// On the speaker: notes, then what would be done, as lines or as JSON.
int print_plan(Context& context, const DryRunReport& report);

/// The first few, and how many more there are.
std::vector<std::string> shortened(std::vector<std::string> lines);

}  // namespace cairn
