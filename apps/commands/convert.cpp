// SPDX-License-Identifier: BSD-3-Clause
#include "cairn/convert.hpp"

#include <algorithm>

#include "commands/commands.hpp"
#include "commands/run_command.hpp"

namespace cairn {
namespace {

constexpr int kMostRanks = 65536, kMostDims = 64;

struct Wanted {
  ConvertOptions options;
  ProgressForm progress;
  bool dry_run;
};

void add_layout_options(Grammar& grammar, const char* ranks) {
  grammar.add()("ranks", word("N"), ranks)("dim", word("D")->default_value("0"),
                                           "the dimension that tensors are cut along")(
      "layout", word("FILE"), "rules, one a line, that come first: GLOB replicated, GLOB shard(D)");
  add_output_options(grammar);
  add_name_options(grammar);
  add_file_options(grammar);
  add_journal_option(grammar);
  add_run_options(grammar);
}

Wanted read_options(const Grammar& grammar, const Parsed& parsed) {
  Wanted wanted;
  read_run_options(grammar, parsed, wanted.options);
  if (parsed.has("ranks")) {
    wanted.options.ranks = number_option("--ranks", parsed.text("ranks"), 1, kMostRanks);
  }
  wanted.options.dim = static_cast<std::size_t>(number_option("--dim", parsed.text("dim"), 0, kMostDims - 1));
  wanted.options.resume = parsed.options["resume"].as<bool>();
  if (parsed.has("layout")) wanted.options.layout_file = parsed.text("layout");
  wanted.progress = progress_form(parsed.text("progress"));
  wanted.dry_run = is_dry_run(parsed);
  return wanted;
}

template <class Verb, class DryVerb>
Action action_of(Verb verb, DryVerb dry_verb, Wanted wanted) {
  return [verb, dry_verb, wanted = std::move(wanted)](Context& context) {
    if (wanted.dry_run)
      return print_plan(context, call_verb(dry_verb, context, wanted.options, wanted.progress));
    return print_report(context, call_verb(verb, context, wanted.options, wanted.progress), wanted.progress,
                        wanted.options.resume);
  };
}

// Of each word its parts between commas.
Words comma_separated(const Words& words) {
  Words parts;
  for (const std::string& text : words) {
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find(',', at), text.size());
      parts.push_back(text.substr(at, end - at));
      at = end + 1;
    }
  }
  return parts;
}

Action understand_convert(const Grammar& grammar, const Parsed& parsed) {
  Wanted wanted = read_options(grammar, parsed);
  read_torch_file_options(grammar, parsed, wanted.options);
  wanted.options.fabric = parsed.options["fabric"].as<bool>();
  wanted.options.whole_iteration = parsed.options["whole-iteration"].as<bool>();
  wanted.options.split = comma_separated(parsed.texts("split"));
  if (parsed.has("to")) {
    wanted.options.to = one_of<ConvertTo>(
        grammar, parsed, "to",
        {{"pth", ConvertTo::torch_file}, {"safetensors", ConvertTo::safetensors}, {"dcp", ConvertTo::dcp}});
  }
  if (parsed.has("max-shard-size"))
    wanted.options.max_shard_bytes = size_option("--max-shard-size", parsed.text("max-shard-size"));
  wanted.options.tied =
      one_of<TiedPolicy>(grammar, parsed, "tied", {{"keep", TiedPolicy::keep}, {"alias", TiedPolicy::alias}});
  return action_of(convert, dry_run_convert, std::move(wanted));
}

Action understand_reshard(const Grammar& grammar, const Parsed& parsed) {
  Wanted wanted = read_options(grammar, parsed);
  if (!parsed.has("ranks")) grammar.refuse("reshard needs --ranks N");
  return action_of(reshard, dry_run_reshard, std::move(wanted));
}

}  // namespace

Command convert_command() {
  Grammar grammar(
      "convert", "SRC DST",
      "Writes a checkpoint as one of another kind: a torch file, safetensors files, a DCP directory.");
  grammar.add()("to", word("KIND"), "pth, safetensors or dcp (default: by DST's extension)")(
      "max-shard-size", word("SIZE"),
      "most data in one safetensors file (default: in a directory 5GB; a file takes all)")(
      "tied", word("HOW")->default_value("keep"),
      "tensors that share a storage, in safetensors files: keep each; alias: one, and the other names "
      "recorded");
  add_fabric_option(grammar);
  add_whole_iteration_option(grammar);
  grammar.add()("split", words("KEY=DIR,…"),
                "a DCP directory in DST for each top-level key, without that key in its names");
  add_layout_options(grammar, "lay a DCP directory out for so many ranks (default 1)");
  add_torch_file_options(grammar);
  return {std::move(grammar), understand_convert};
}

Command reshard_command() {
  Grammar grammar("reshard", "SRC DST", "Writes a DCP directory laid out for another number of ranks.");
  add_layout_options(grammar, "the number of ranks that it is laid out for");
  return {std::move(grammar), understand_reshard};
}

}  // namespace cairn
