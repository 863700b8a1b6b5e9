// SPDX-License-Identifier: BSD-3-Clause
#include "pickle/persistent_nodes.hpp"

#include <unordered_set>

namespace cairn::pickle {
namespace {

class Walk {
 public:
  explicit Walk(const Arena& arena) : arena_(arena) {}

  std::vector<Value> run(Value root) {
    push(root);
    while (!open_.empty()) {
      const Value value = open_.back();
      open_.pop_back();
      expand(value);
    }
    return std::move(found_);
  }

 private:
  static bool is_leaf(Kind kind) {
    return kind != Kind::tuple && kind != Kind::list && kind != Kind::dict && kind != Kind::set &&
           kind != Kind::frozenset && kind != Kind::object && kind != Kind::persistent;
  }
  void push(Value value) {
    if (!is_leaf(value.kind()) && seen_.insert(value.bits).second) open_.push_back(value);
  }
  void push_all(std::span<const Value> values) {
    for (const Value value : values) push(value);
  }
  void expand(Value value) {
    if (value.kind() == Kind::persistent) return found_.push_back(value);
    if (value.kind() != Kind::object) return push_all(arena_.items(value));
    const auto object = arena_.object_view(value);
    push(object.callable);
    push(object.args);
    push(object.kwargs);
    push_all(object.list_items);
    push_all(object.dict_items);
    if (object.state) push(*object.state);
  }

  const Arena& arena_;
  std::vector<Value> open_, found_;
  std::unordered_set<std::uint64_t> seen_;
};

}  // namespace

std::vector<Value> persistent_nodes(const Arena& arena, Value root) { return Walk(arena).run(root); }

}  // namespace cairn::pickle
