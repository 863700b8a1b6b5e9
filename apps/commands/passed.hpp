// SPDX-License-Identifier: BSD-3-Clause
// Iterations of a training tree that were passed over, as latest and prune tell of them. On rank 0. Local.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cairn/training.hpp"
#include "report.hpp"

namespace cairn {

/// A line each on standard error: "cairn: KIND: PATH: WHAT: reason".
void say_passed(const Context& context, std::string_view kind, std::string_view what,
                const std::vector<PassedIteration>& passed);
/// `[{"path": …, "reason": …}, …]`.
std::string passed_json(const std::vector<PassedIteration>& passed);

}  // namespace cairn
