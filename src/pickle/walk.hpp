// SPDX-License-Identifier: BSD-3-Clause
// Goes through all that is reachable from a value: any nesting, cycles included.
#pragma once

#include <span>

#include "pickle/value.hpp"
#include "pickle/value_map.hpp"

namespace cairn::pickle {

/// Time and memory are proportional to what is reachable. The arena must not change meanwhile.
class Walk {
 public:
  Walk(const Arena& arena, Value root) : arena_(arena) { push(root); }

  /// The next node in writing order, each once, without None, bools, small integers and floats.
  bool next(Value& value) {
    while (pending_.size() > 0) {
      value = pending_.back();
      pending_.shrink(pending_.size() - 1);
      if (!seen_.insert(value, 0)) continue;
      push_children(value);
      return true;
    }
    return false;
  }

 private:
  void push(Value value) {
    if (value.kind() >= Kind::big_integer && value.kind() != Kind::real) pending_.push(value);
  }
  void push_all(std::span<const Value> values) {
    for (std::size_t i = values.size(); i > 0; --i) push(values[i - 1]);
  }

  void push_children(Value value) {
    switch (value.kind()) {
      case Kind::tuple:
      case Kind::list:
      case Kind::dict:
      case Kind::set:
      case Kind::frozenset:
        return push_all(arena_.items(value));
      case Kind::object:
        return push_object(arena_.object_view(value));
      case Kind::persistent:
        return push(arena_.persistent_id(value));
      default:
        return;
    }
  }
  void push_object(const Arena::ObjectView& object) {
    if (object.state) push(*object.state);
    push_all(object.dict_items);
    push_all(object.list_items);
    push(object.kwargs);
    push(object.args);
    push(object.callable);
  }

  const Arena& arena_;
  Pool<Value> pending_;
  ValueMap seen_;
};

}  // namespace cairn::pickle
