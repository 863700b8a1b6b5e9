// SPDX-License-Identifier: BSD-3-Clause
// Generated text: the same for the same number on every machine and any number of ranks.
#pragma once

#include <cstdint>
#include <string>

namespace elastic {

/// Bytes that text is made of, as numbers below kAlphabet: a newline, a space, a full stop, a to z, 0 to 9.
inline constexpr int kAlphabet = 39;
int token_of(char character);

/// Sentences of sample `number`, cut at `length` characters.
std::string sample_text(std::uint64_t number, int length);

}  // namespace elastic
