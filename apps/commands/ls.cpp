// SPDX-License-Identifier: BSD-3-Clause
#include "cairn/checkpoint.hpp"
#include "commands/commands.hpp"
#include "commands/selection.hpp"

namespace cairn {
namespace {

enum class Form { entries, shards, tree };

struct Wanted {
  std::string given, path;
  std::vector<std::string> globs;
  Form form;
};

void print(StandardOutput& out, const Selection& selection, const Wanted& wanted, bool json) {
  const bool shards = wanted.form == Form::shards;
  if (json)
    print_json(out, selection, wanted.given, shards);
  else if (wanted.form == Form::tree)
    print_tree(out, selection);
  else if (shards)
    print_shards(out, selection);
  else
    print_entries(out, selection);
}

int run(Context& context, const Wanted& wanted) {
  return run_on_speaker(context, "listing", [&](StandardOutput& out) {
    const auto listing = list_checkpoint(posix_file_system(), wanted.path);
    const auto selection = select(listing, wanted.globs);
    say_notes(context, "note", listing.notes);
    print(out, selection, wanted, context.flags.json);
    return 0;
  });
}

Action understand(const Grammar& grammar, const Parsed& parsed) {
  const auto& words = parsed.operands;
  grammar.expect_operands(parsed, 1, words.max_size());
  const bool shards = parsed.options["shards"].as<bool>(), tree = parsed.options["tree"].as<bool>();
  if (tree && shards) grammar.refuse("--tree and --shards exclude each other");
  if (tree && parsed.options["json"].as<bool>()) grammar.refuse("--tree and --json exclude each other");
  const Wanted wanted{words[0],
                      path_operand(words[0]),
                      {words.begin() + 1, words.end()},
                      tree     ? Form::tree
                      : shards ? Form::shards
                               : Form::entries};
  return [wanted](Context& context) { return run(context, wanted); };
}

}  // namespace

Command ls_command() {
  Grammar grammar("ls", "PATH [GLOB…]", "Lists tensors and objects: name, dtype, shape, bytes, chunk count.");
  grammar.add()("shards", flag(), "one line a chunk: name, dtype, box, file, byte offset, byte length")(
      "tree", flag(), "by prefix: tensors, objects, bytes of the tensors below it");
  return {std::move(grammar), understand};
}

}  // namespace cairn
