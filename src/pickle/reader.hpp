// SPDX-License-Identifier: BSD-3-Clause
// Decodes pickles of protocols 2 to 5 (as CPython's picklers write them) into an arena. Nothing is resolved,
// imported or called.
//
// Calls that stand for plain values (bytes, bytearray, set, frozenset at protocol 2) become those: fold.hpp.
// Python 2 names of protocols 0 to 2 (`__builtin__`, `copy_reg` …) become their Python 3 names.
// Python 2's own strings (BINSTRING) are taken as UTF-8 text.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "pickle/value.hpp"

namespace cairn::pickle {

struct ReadLimits {
  std::size_t open_marks = 10'000;  ///< containers begun and not closed; CPython's pickler stays below 1 000
  /// torch.Size((…)) becomes its tuple. For readers that take both and don't write the value again: a node
  /// less for each of the millions in a large `.metadata`.
  bool sizes_as_tuples = false;
};

/// Local. The value of the one pickle in `pickle`; `where` names the input in messages.
/// Throws corrupt (bytes that no pickler writes: truncation, bad memo index, wrong kinds, invalid UTF-8,
/// values left on the stack) and unsupported (an opcode outside the set, by name and byte offset). The arena
/// may have grown then. Memory and time are proportional to the pickle's size: a memo index must be below
/// that size, and what folding copies is bounded by it. Bytes after STOP are corrupt, unless `consumed` is
/// given: it receives the length up to and with STOP.
Value read(Arena& arena, std::span<const std::byte> pickle, std::string_view where, ReadLimits limits = {},
           std::size_t* consumed = nullptr);

}  // namespace cairn::pickle
