// SPDX-License-Identifier: BSD-3-Clause
// The commands. Each file of this folder is one.
#pragma once

#include <functional>
#include <vector>

#include "command_line.hpp"
#include "report.hpp"

namespace cairn {

/// A command whose words are understood. Collective; returns the exit status, the same on all ranks.
using Action = std::function<int(Context&)>;

struct Command {
  Grammar grammar;
  /// Throws for words that make no sense; these errors end in status 2.
  std::function<Action(const Grammar&, const Parsed&)> understand;
};

Command ls_command();
Command verify_command();
Command consolidate_command();
Command convert_command();
Command reshard_command();
Command latest_command();
Command prune_command();
Command bench_command();
Command version_command();

}  // namespace cairn
