// SPDX-License-Identifier: BSD-3-Clause
// What a command says besides its result: notes, errors, and the exit status. Rank 0 speaks for all.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/communicator.hpp"
#include "cairn/error.hpp"
#include "command_line.hpp"
#include "standard_output.hpp"

namespace cairn {

/// What a running command works with.
struct Context {
  Communicator& comm;
  StandardOutput& out;
  CommonFlags flags;

  bool speaks() const { return comm.rank() == 0; }
};

/// A message made safe to print as escape_name() does it, but with its backslashes kept: names in it are
/// escaped already.
std::string one_line(std::string_view message);
/// One line on standard error, with control characters escaped. Local.
void say(std::string_view text);
/// A line each on rank 0, unless --quiet. Local.
void say_notes(const Context& context, std::string_view kind, const std::vector<std::string>& notes);

/// Collective. Runs `body` on rank 0 only, flushes what it wrote, and returns its exit status on all ranks;
/// they throw the same error when it fails. `step` is a short phrase for messages.
int run_on_speaker(Context& context, std::string_view step, const std::function<int(StandardOutput&)>& body);

/// Says an error, in both forms when JSON is asked for. Never throws. Local.
void say_error(StandardOutput& out, bool json, const Error& error);

enum class Phase { command_line, work };
/// 2 for what is wrong with the command line, else 1.
int exit_status(const Error& error, Phase phase);

}  // namespace cairn
