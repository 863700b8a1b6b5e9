// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <thread>

#include "base/fail.hpp"
#include "commands/commands.hpp"
#include "launcher.hpp"
#include "report.hpp"
#include "storage/signal_cleanup.hpp"

namespace cairn {
namespace {

std::vector<Command> commands() {
  std::vector<Command> all;
  all.push_back(ls_command());
  all.push_back(verify_command());
  all.push_back(consolidate_command());
  all.push_back(convert_command());
  all.push_back(reshard_command());
  all.push_back(latest_command());
  all.push_back(prune_command());
  all.push_back(bench_command());
  all.push_back(version_command());
  return all;
}

std::string overview() {
  std::string text =
      "usage: cairn COMMAND [OPTION…] …\n\nPyTorch Distributed Checkpoints without Python.\n\n";
  for (const auto& command : commands()) {
    text += fmt::format("  {:<12} {}\n", command.grammar.command(), command.grammar.summary());
  }
  return text + "\ncairn COMMAND --help tells a command's options.\n";
}

Action print(std::string text) {
  return [text = std::move(text)](Context& context) {
    return run_on_speaker(context, "printing the help", [&](StandardOutput& out) {
      out.write(text);
      return 0;
    });
  };
}

[[noreturn]] void refuse(std::string message) {
  throw Error(ErrorKind::invalid_argument, std::move(message), "see cairn --help");
}

Action understand(const Words& words, const CommonFlags& flags) {
  if (words.empty()) refuse("a command is needed");
  if (words[0] == "--help" || words[0] == "-h") return print(overview());
  if (words[0].starts_with("-")) refuse(fmt::format("'{}' stands where a command is needed", words[0]));
  for (const auto& [grammar, understand_words] : commands()) {
    if (grammar.command() != words[0]) continue;
    if (flags.help) return print(grammar.help());
    return understand_words(grammar, grammar.parse(Words(words.begin() + 1, words.end())));
  }
  refuse(fmt::format("there is no command '{}'", words[0]));
}

// Nobody else knows of it: the other ranks would wait for this one.
int end_unexpectedly(Context& context, const std::exception& error) {
  const auto where = context.comm.size() > 1 ? fmt::format("rank {}: ", context.comm.rank()) : "";
  say_error(context.out, context.flags.json,
            Error(ErrorKind::io, fmt::format("{}unexpected: {}", where, error.what())));
  if (context.comm.size() > 1) context.comm.abort(1);
  return 1;
}

int run(const Words& words, Context& context) {
  auto phase = Phase::command_line;
  try {
    const auto action = understand(words, context.flags);
    phase = Phase::work;
    return action(context);
  } catch (const Error& error) {
    if (context.speaks()) say_error(context.out, context.flags.json, error);
    return exit_status(error, phase);
  } catch (const std::exception& error) {
    return end_unexpectedly(context, error);
  }
}

int refuse_launch(const Launched& launch, StandardOutput& out, bool json, const Error& error) {
  // A launcher ends the job when the first process fails: rank 0 is to speak before.
  if (launch.rank > 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  else
    say_error(out, json, error);
  return exit_status(error, Phase::command_line);
}

int run(int argc, char** argv) {
  const Words words(argv + (argc > 0 ? 1 : 0), argv + argc);
  const auto flags = common_flags(words);
  const auto launch = launched();
  StandardOutput out;
  std::unique_ptr<World> world;
  try {
    world = std::make_unique<World>(flags, launch, argc, argv);
  } catch (const Error& error) {
    return refuse_launch(launch, out, flags.json, error);
  }
  Context context{world->comm(), out, flags};
  return run(words, context);
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  cairn::prepare_standard_streams();
  cairn::install_signal_cleanup();
  return cairn::run(argc, argv);
}
