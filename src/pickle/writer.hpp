// SPDX-License-Identifier: BSD-3-Clause
// Writes values as CPython 3.11's C pickler does at protocol 2 (the one torch.save uses), byte for byte, for
// the same graph of objects: memo numbers by identity in writing order, batches of 1000, the opcodes' choices
// (Modules/_pickle.c: save and the save_… functions).
#pragma once

#include <functional>
#include <span>

#include "base/byte_writer.hpp"
#include "pickle/value.hpp"

namespace cairn::pickle {

/// Local. Appends the pickle of `root` with PROTO and STOP. Throws unsupported for what protocol 2 cannot say
/// or we don't: NEWOBJ_EX, names of globals beyond ASCII or with a line end, strings of 4 GiB, more than 1000
/// levels of nesting (CPython's own limit), a graph whose pickle would be 64 times the arena's size (such
/// graphs are made on purpose). `out` may have grown then.
void write_protocol2(const Arena& arena, Value root, ByteWriter& out);

/// What a persistent node is written as: the items of its id, a tuple made anew at each occurrence, as
/// torch's persistent_id() does. Called in writing order, for every occurrence; must not add nodes to the
/// arena.
using PersistentId = std::function<std::span<const Value>(Value node)>;

/// Local. The same with the ids of persistent nodes from `persistent_id`; what the nodes hold is not written.
void write_protocol2(const Arena& arena, Value root, ByteWriter& out, const PersistentId& persistent_id);

}  // namespace cairn::pickle
