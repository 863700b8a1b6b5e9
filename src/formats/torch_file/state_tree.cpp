// SPDX-License-Identifier: BSD-3-Clause
#include "formats/torch_file/state_tree.hpp"

#include <algorithm>
#include <span>

#include "base/byte_writer.hpp"
#include "base/fail.hpp"
#include "base/keyed_hash.hpp"
#include "base/text.hpp"

namespace cairn::torch_file {
namespace {

constexpr std::uint32_t kFewChildren = 8;  // are gone through; those of wide containers are indexed
constexpr std::size_t kMaxDepth = 900;     // the pickle writer, like CPython's, nests at most 1 000 levels

}  // namespace

StateTree::StateTree(const Catalog& catalog, bool flat, std::uint64_t max_padding)
    : catalog_(catalog), flat_(flat), padding_left_(max_padding) {
  nodes_.push_back({.kind = Kind::dict, .entry = 0});
}

void StateTree::add(std::uint32_t index) {
  const Entry& entry = catalog_.entries()[index];
  const StringId name =
      entry.is_tensor ? catalog_.tensors()[entry.index].name : catalog_.objects()[entry.index].name;
  const PathStep whole{name, false};
  const std::span<const PathStep> path =
      entry.has_path && !flat_ ? catalog_.path(entry) : std::span(&whole, 1);
  if (path.size() > kMaxDepth) {
    fail(ErrorKind::unsupported, "the path of '{}' has {} steps, at most {} expected",
         escape_name(catalog_.name(entry)), path.size(), kMaxDepth);
  }
  Index node = 0;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const Kind kind = i + 1 == path.size() ? Kind::leaf : path[i + 1].is_position ? Kind::list : Kind::dict;
    node = child(node, path[i], kind, index);
  }
}

StateTree::Index StateTree::child(Index parent, PathStep step, Kind kind, std::uint32_t entry) {
  if (nodes_[parent].kind != (step.is_position ? Kind::list : Kind::dict)) collide(parent, entry);
  if (const Index found = find_child(parent, step); found != 0) {
    // a leaf where something is, or a container where a leaf or the other kind of container is
    if (kind == Kind::leaf || nodes_[found].kind != kind) collide(found, entry);
    return found;
  }
  if (step.is_position) pad_list(parent, step.value, entry);
  return add_child({.kind = kind, .entry = entry, .parent = parent, .step = step.value});
}

bool StateTree::is_wide(const Node& container) const { return container.child_count > kFewChildren; }

bool StateTree::is_step(const Node& node, PathStep step) const {
  if (node.step == step.value || step.is_position) return node.step == step.value;
  return catalog_.text(static_cast<StringId>(node.step)) == catalog_.text(static_cast<StringId>(step.value));
}

StateTree::Index StateTree::find_child(Index parent, PathStep step) const {
  const Node& container = nodes_[parent];
  if (is_wide(container)) {
    // entries often share steps with the one before
    return is_step(nodes_[container.last_child], step) ? container.last_child : find_slot(parent, step);
  }
  Index at = container.first_child;
  while (at != 0 && !is_step(nodes_[at], step)) at = nodes_[at].next_sibling;
  return at;
}

StateTree::Index StateTree::add_child(const Node& node) {
  const auto index = static_cast<Index>(nodes_.size());
  nodes_.push_back(node);
  Node& up = nodes_[node.parent];
  (up.first_child == 0 ? up.first_child : nodes_[up.last_child].next_sibling) = index;
  up.last_child = index;
  if (++up.child_count == kFewChildren + 1) {
    for (Index at = up.first_child; at != 0; at = nodes_[at].next_sibling) index_child(at);
  } else if (is_wide(up)) {
    index_child(index);
  }
  return index;
}

void StateTree::pad_list(Index list, std::int64_t position, std::uint32_t entry) {
  Node& self = nodes_[list];
  if (position < self.list_length) return;
  const auto padding = static_cast<std::uint64_t>(position - self.list_length);
  if (padding > padding_left_) {
    fail_corrupt("'{}': list position {} leaves more gaps than the metadata can mean",
                 escape_name(catalog_.name(catalog_.entries()[entry])), position);
  }
  padding_left_ -= padding;
  self.list_length = position + 1;
}

// --- children of wide containers --------------------------------------------------------------------------

std::uint32_t StateTree::hash_of(Index parent, PathStep step) const {
  const auto text = step.is_position ? std::as_bytes(std::span(&step.value, 1))
                                     : as_bytes(catalog_.text(static_cast<StringId>(step.value)));
  return static_cast<std::uint32_t>(keyed_hash(text, parent));
}

StateTree::Index StateTree::find_slot(Index parent, PathStep step) const {
  const std::uint32_t hash = hash_of(parent, step);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
    const Slot slot = slots_[at];
    if (slot.node == 0) return 0;
    if (slot.hash == hash && nodes_[slot.node].parent == parent && is_step(nodes_[slot.node], step))
      return slot.node;
  }
}

void StateTree::index_child(Index node) {
  if (2 * ++indexed_ > slots_.size()) {
    std::vector<Slot> old(std::max<std::size_t>(64, 2 * slots_.size()));
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.node != 0) insert(slot);
    }
  }
  const Node& self = nodes_[node];
  insert({hash_of(self.parent, {self.step, nodes_[self.parent].kind == Kind::list}), node});
}

void StateTree::insert(Slot entry) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = entry.hash & mask;
  while (slots_[at].node != 0) at = (at + 1) & mask;
  slots_[at] = entry;
}

void StateTree::collide(std::uint32_t node, std::uint32_t entry) const {
  const auto name = [&](std::uint32_t of) { return escape_name(catalog_.name(catalog_.entries()[of])); };
  fail_corrupt("'{}' and '{}' cannot both be in one nested state: their paths collide",
               name(nodes_[node].entry), name(entry));
}

pickle::Value StateTree::build(pickle::Arena& arena, const std::vector<pickle::Value>& leaf_values,
                               const std::vector<pickle::Value>& strings) const {
  Values values{arena, leaf_values, strings, {}};
  return build_node(0, values);
}

pickle::Value StateTree::build_node(Index node, Values& values) const {
  const Node& self = nodes_[node];
  if (self.kind == Kind::leaf) return values.leaves[self.entry];
  return self.kind == Kind::list ? build_list(self, values) : build_dict(self, values);
}

pickle::Value StateTree::build_dict(const Node& self, Values& values) const {
  const std::size_t begin = values.items.size();
  for (Index at = self.first_child; at != 0; at = nodes_[at].next_sibling) {
    const pickle::Value value = build_node(at, values);
    values.items.push_back(values.strings[static_cast<std::size_t>(nodes_[at].step)]);
    values.items.push_back(value);
  }
  const pickle::Value dict = values.arena.dict();
  values.arena.set_all(dict, std::span(values.items).subspan(begin));
  values.items.resize(begin);
  return dict;
}

pickle::Value StateTree::build_list(const Node& self, Values& values) const {
  const std::size_t begin = values.items.size();
  values.items.resize(begin + static_cast<std::size_t>(self.list_length));  // of None
  for (Index at = self.first_child; at != 0; at = nodes_[at].next_sibling) {
    const pickle::Value value = build_node(at, values);
    values.items[begin + static_cast<std::size_t>(nodes_[at].step)] = value;
  }
  const pickle::Value list = values.arena.list();
  values.arena.append_all(list, std::span(values.items).subspan(begin));
  values.items.resize(begin);
  return list;
}

}  // namespace cairn::torch_file
