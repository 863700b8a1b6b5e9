// SPDX-License-Identifier: BSD-3-Clause
// UTF-8 as pickles use it: surrogates may stand alone (Python's "surrogatepass").
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cairn::pickle {

/// What Python's decode('utf-8', 'surrogatepass') accepts.
bool valid_utf8(std::string_view text);
/// nullopt if a character is above U+00FF. `utf8` must be valid.
std::optional<std::string> utf8_to_latin1(std::string_view utf8);
std::string latin1_to_utf8(std::string_view latin1);

}  // namespace cairn::pickle
