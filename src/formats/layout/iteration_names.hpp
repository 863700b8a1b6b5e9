// SPDX-License-Identifier: BSD-3-Clause
// Names in training trees: of iterations, of their components, of the pointer. Pure, but for pointed_name().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "formats/layout/folder.hpp"

namespace cairn::layout {

/// Its text is the name of an iteration's directory.
inline constexpr std::string_view kPointer = "latest_checkpoint.txt";

/// One component of a path, neither "." nor "..".
bool is_plain_name(std::string_view name);
/// `prefix` and decimal digits.
bool is_numbered(std::string_view name, std::string_view prefix);
/// "iter_000000025", "step-25", "step_25".
bool is_iteration_name(std::string_view name);
/// nullopt for other names, and for numbers beyond int64.
std::optional<std::int64_t> iteration_number(std::string_view name);
/// ".iter_000000025.cairn-part", ".iter_000000025.cairn-removed": an iteration that is coming or going.
bool is_passing_name(std::string_view name);
/// Of a training state beside the model: "optim", "optim_net", "scheduler", "trainer", …
bool is_component(std::string_view name);

/// What the pointer in `checkpoints` says, without white space and line ends after it; empty when it is
/// empty, or there is none. Not necessarily a plain name.
std::string pointed_name(const Folder& checkpoints);

}  // namespace cairn::layout
