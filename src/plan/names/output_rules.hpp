// SPDX-License-Identifier: BSD-3-Clause
// The value of `--output FILE:RULES`. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "plan/names/name_rules.hpp"

namespace cairn {

struct OutputRules {
  std::string file;
  NameRules rules;                      ///< without the map
  std::optional<std::string> map_file;  ///< whose lines are to become rules.map
};

///     FILE:RULE[,RULE]…    RULE: select=GLOB exclude=GLOB unwrap strip-prefix=P rename=FROM=TO map=FILE
///     cast=C
///
/// The options of those names, in any order and, but for unwrap and map, more than once. FILE ends at the
/// first
/// ':', a rule at each ','. A backslash before ':', ',' or '\' takes its meaning away; before anything else
/// it is an error. Throws invalid_argument that quotes the rule and its position in the text, from 1.
OutputRules parse_output_rules(std::string_view text);

}  // namespace cairn
