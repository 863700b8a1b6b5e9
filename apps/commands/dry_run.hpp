// SPDX-License-Identifier: BSD-3-Clause
// What a dry run prints on standard output. On rank 0. Local.
#pragma once

#include "cairn/checkpoint.hpp"
#include "standard_output.hpp"

namespace cairn {

/// Lines of fields with TABs between them; the first says what the line is.
void print_dry_run(StandardOutput& out, const DryRunReport& report);
void print_dry_run_json(StandardOutput& out, const DryRunReport& report);

}  // namespace cairn
