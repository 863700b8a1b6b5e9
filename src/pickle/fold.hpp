// SPDX-License-Identifier: BSD-3-Clause
// Protocols 2 and 3 spell some plain values as calls:
//   _codecs.encode(str, 'latin1')     bytes          builtins.bytes()                        b''
//   builtins.bytearray([bytes])       bytearray      builtins.set/frozenset(list)            set, frozenset
#pragma once

#include <cstddef>
#include <optional>

#include "pickle/value.hpp"

namespace cairn::pickle {

/// The value of such a call, nullopt for any other. `args` is a tuple. What is copied is taken off
/// `copies_left`: all of it came from the pickle once, so a pickle that copies more than it holds is an
/// attack through the memo. Throws corrupt then, and for "latin1" text with a character above U+00FF.
std::optional<Value> fold_call(Arena& arena, Value callable, Value args, std::size_t& copies_left);

}  // namespace cairn::pickle
