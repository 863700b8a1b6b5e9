// SPDX-License-Identifier: BSD-3-Clause
// Pieces of JSON as text, for output that is written as it is found.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

/// `text` as a JSON string with its quotes. Control characters are escaped. A surrogate encoded in UTF-8
/// becomes \uDxxx, any other byte that is not UTF-8 \udcNN (NN: the byte): what Python's "surrogatepass" and
/// "surrogateescape" make of them.
std::string json_string(std::string_view text);
std::string json_array(std::span<const std::int64_t> values);
std::string json_array(const std::vector<std::string>& texts);

}  // namespace cairn
