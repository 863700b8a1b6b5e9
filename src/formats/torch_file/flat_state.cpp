// SPDX-License-Identifier: BSD-3-Clause
#include "formats/torch_file/flat_state.hpp"

#include <algorithm>
#include <optional>

#include "base/fail.hpp"
#include "base/text.hpp"
#include "formats/torch_file/tensor_value.hpp"

namespace cairn::torch_file {
namespace {

using pickle::Arena;
using pickle::Kind;
using pickle::Value;

constexpr int kMaxDepth = 250;  // flattening looks at what is below a list once for each list above
constexpr std::size_t kDroppedShown = 10;
// Names repeat the keys of all levels above: as long as this for each byte of the pickle they come to by
// themselves; longer ones are made on purpose.
constexpr std::size_t kNameBytes = 16;

bool is_plain(Value value) {
  const Kind kind = value.kind();
  return kind <= Kind::real || kind == Kind::string || kind == Kind::bytes;
}

// Keys and values of a mapping; nullopt for anything else.
std::optional<std::span<const Value>> items_of_mapping(const Arena& arena, Value value) {
  if (value.kind() == Kind::dict) return arena.items(value);
  if (value.kind() != Kind::object) return {};
  const auto object = arena.object_view(value);
  const auto args = object.args.kind() == Kind::tuple ? arena.items(object.args) : std::span<const Value>{};
  if (arena.is_global(object.callable, "collections", "Counter")) {
    if (args.size() == 1 && args[0].kind() == Kind::dict) return arena.items(args[0]);
    return {};
  }
  const bool ordered = arena.is_global(object.callable, "collections", "OrderedDict") && args.empty();
  if (ordered || arena.is_global(object.callable, "collections", "defaultdict")) return object.dict_items;
  return {};
}

std::string described(const Arena& arena, Value value) {
  if (is_tensor(arena, value)) return "one tensor without a name";
  return fmt::format("a value of kind {}", to_string(value.kind()));
}

}  // namespace

FlatState::FlatState(const Arena& arena, Value root, std::size_t pickle_bytes, EmptyDicts empty_dicts)
    : arena_(arena), empty_dicts_(empty_dicts), pickle_bytes_(pickle_bytes) {
  const auto items = items_of_mapping(arena, root);
  if (!items) {
    fail(ErrorKind::unsupported, "the file holds {}, a dict of names is needed", described(arena, root));
  }
  root_ = build_dict(*items, root, 0);
  flatten_root();
}

void FlatState::flatten_root() {
  try {
    entries_ = flatten(root_);
  } catch (const Error& error) {
    fail(ErrorKind::unsupported, "{}", error.message());
  }
}

StateNode FlatState::leaf(StateNode::Kind kind, Value value) {
  name_bytes_ += name_.size();
  if (name_bytes_ > kNameBytes * pickle_bytes_) {
    fail_corrupt("flat names of more than {} bytes in a pickle of {}", name_bytes_, pickle_bytes_);
  }
  values_.push_back(value);
  return {kind, values_.size() - 1, {}, {}};
}

StateNode FlatState::build(Value value, int depth) {
  if (depth > kMaxDepth) fail_corrupt("'{}': more than {} levels", escape_name(name_), kMaxDepth);
  if (++nodes_ > pickle_bytes_) {
    fail_corrupt("more than {} values in a pickle of as many bytes", pickle_bytes_);
  }
  if (const auto items = items_of_mapping(arena_, value)) return build_dict(*items, value, depth);
  if (value.kind() == Kind::list) return build_list(value, depth);
  if (value.kind() == Kind::tuple) return leaf(StateNode::Kind::tuple, value);
  return leaf(is_tensor(arena_, value) ? StateNode::Kind::tensor : StateNode::Kind::object, value);
}

StateNode FlatState::build_dict(std::span<const Value> items, Value value, int depth) {
  if (items.empty() && empty_dicts_ == EmptyDicts::keep && depth > 0)
    return leaf(StateNode::Kind::object, value);
  if (items.empty() && depth > 0 && dropped_count_++ < kDroppedShown) dropped_.push_back(name_);
  StateNode node{StateNode::Kind::dict, integer_keys_.size(), {}, {}};
  std::vector<bool> integers;
  const std::size_t length = name_.size();
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    integers.push_back(items[i].kind() == Kind::integer);
    node.keys.push_back(key_text(items[i]));
    if (depth > 0) name_ += '.';
    name_ += node.keys.back();
    node.items.push_back(build(items[i + 1], depth + 1));
    name_.resize(length);
  }
  // the ids of dicts below are taken by now
  node.id = integer_keys_.size();
  integer_keys_.push_back(std::move(integers));
  return node;
}

std::string FlatState::key_text(Value key) const {
  if (key.kind() == Kind::string) return std::string(arena_.text(key));
  if (key.kind() == Kind::integer) return std::to_string(arena_.as_integer(key));
  fail(ErrorKind::unsupported, "'{}': a dict with a key of kind {}, str or int is needed", escape_name(name_),
       to_string(key.kind()));
}

// Of a list of plain values only that it is one object matters.
StateNode FlatState::build_list(Value value, int depth) {
  const auto items = arena_.items(value);
  StateNode node = leaf(StateNode::Kind::list, value);
  if (std::ranges::all_of(items, is_plain)) return node;
  const std::size_t length = name_.size();
  for (std::size_t i = 0; i < items.size(); ++i) {
    name_ += '.';
    name_ += std::to_string(i);
    node.items.push_back(build(items[i], depth + 1));
    name_.resize(length);
  }
  return node;
}

// Goes down to the entries, which come in the same order.
struct FlatState::Visiting {
  const Visit& visit;
  std::size_t next = 0;
  std::vector<Step> path{};
};

void FlatState::visit_all(const Visit& visit) const {
  Visiting visiting{visit};
  this->visit(root_, visiting);
}

void FlatState::visit(const StateNode& node, Visiting& visiting) const {
  if (visiting.next < entries_.size() && entries_[visiting.next].value == &node) {
    visiting.visit(entries_[visiting.next].name, visiting.path, values_[node.id],
                   node.kind == StateNode::Kind::tensor);
    ++visiting.next;
    return;
  }
  const bool is_dict = node.kind == StateNode::Kind::dict;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    if (is_dict)
      visiting.path.push_back({node.keys[i], integer_keys_[node.id][i], -1});
    else
      visiting.path.push_back({{}, false, static_cast<std::int64_t>(i)});
    visit(node.items[i], visiting);
    visiting.path.pop_back();
  }
}

}  // namespace cairn::torch_file
