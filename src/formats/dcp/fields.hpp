// SPDX-License-Identifier: BSD-3-Clause
// Looking into pickled instances of torch's metadata classes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "pickle/value.hpp"

namespace cairn::dcp {

using pickle::Arena;
using pickle::Value;

/// Whether `value` is an instance of a class of this name from one of torch's own modules (classes moved
/// between modules over time; their names are unique).
bool is_instance(const Arena& arena, Value value, std::string_view class_name);

/// A field of an instance whose state is its __dict__; nullopt when absent, or when that has more entries
/// than any of torch's metadata classes. `value` may be anything.
std::optional<Value> field(const Arena& arena, Value value, std::string_view name);

/// Reads torch.Size, a tuple or a list of ints into `out` (cleared first); false for anything else.
bool read_size(const Arena& arena, Value value, std::vector<std::int64_t>& out);

/// The dtype's name ("float32") of a pickled torch.dtype; empty for anything else.
std::string_view dtype_name(const Arena& arena, Value value);

/// "a list", "torch.nn.Module": what a value is, for messages.
std::string describe(const Arena& arena, Value value);

}  // namespace cairn::dcp
