// SPDX-License-Identifier: BSD-3-Clause
// Names in a sentence. Pure.
#pragma once

#include <span>
#include <string>

namespace cairn {

/// "'a', 'b' and 12 more": the first eight, escaped.
std::string list_names(std::span<const std::string> names);

}  // namespace cairn
