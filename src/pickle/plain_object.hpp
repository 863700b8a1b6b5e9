// SPDX-License-Identifier: BSD-3-Clause
// cairn::Object as a pickle value and back. Local, pure.
#pragma once

#include <optional>

#include "cairn/object.hpp"
#include "pickle/value.hpp"

namespace cairn::pickle {

/// Each str and container is a Python object of its own. Throws invalid_argument for what holds an
/// Object::Stored, for text that is no UTF-8, and beyond 1000 levels.
Value add_object(Arena& arena, const Object& object);

/// nullopt for what an Object can't say, in whole or in a part: ints beyond 64 bits, sets, globals,
/// instances, tensors; more than 1000 levels; values that, taken apart, are many times what the pickle holds
/// (a list that is referred to again and again). `pickle_bytes`: the pickle's length.
std::optional<Object> to_object(const Arena& arena, Value value, std::size_t pickle_bytes);

}  // namespace cairn::pickle
