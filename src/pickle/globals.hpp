// SPDX-License-Identifier: BSD-3-Clause
// What a pickle asks its reader to import, and what `torch.load(weights_only=True)` would say about it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pickle/value.hpp"

namespace cairn::pickle {

/// The globals that the protocol 2 pickle of `root` names (those that stand for bytes, sets and nested names
/// included), by their Python 3 names, each once, in order of first appearance. Views into the arena.
std::vector<Arena::GlobalName> collect_globals(const Arena& arena, Value root);

/// Whether torch 2.13's weights-only unpickler knows the global without add_safe_globals.
/// Source: _get_allowed_globals() in torch/_weights_only_unpickler.py.
bool torch_safe_global(std::string_view module, std::string_view name);

/// What plain torch.load(weights_only=True) would refuse in the protocol 2 pickle of `root`, in words, each
/// once; empty if it loads. Globals, calls, BUILD and items of objects it does not trust, integers of 256
/// bytes or more (LONG4), persistent ids other than storages. Not seen: POP and POP_MARK, which only tuples
/// and sets that contain themselves need.
std::vector<std::string> unsafe_parts(const Arena& arena, Value root);

}  // namespace cairn::pickle
