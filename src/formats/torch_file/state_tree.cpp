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

constexpr std::size_t kMaxDepth = 900;  // the pickle writer, like CPython's, nests at most 1 000 levels

}  // namespace

StateTree::StateTree(const Catalog& catalog, bool flat, std::uint64_t max_padding)
    : catalog_(catalog), flat_(flat), padding_left_(max_padding) {
  nodes_.push_back({Kind::dict, 0});
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
  const Index last = nodes_[parent].last_child;  // entries often share steps with the one before
  const bool again = last != 0 && is_child(last, parent, step);
  const std::uint32_t hash = again ? 0 : hash_of(parent, step);
  if (const Index found = again ? last : find_child(parent, step, hash); found != 0) {
    // a leaf where something is, or a container where a leaf or the other kind of container is
    if (kind == Kind::leaf || nodes_[found].kind != kind) collide(found, entry);
    return found;
  }
  if (step.is_position) pad_list(parent, step.value, entry);
  return add_child(parent, {kind, entry, parent, hash, step.value});
}

bool StateTree::is_child(Index node, Index parent, PathStep step) const {
  const Node& at = nodes_[node];
  if (at.parent != parent) return false;
  if (at.step == step.value || step.is_position) return at.step == step.value;
  return catalog_.text(static_cast<StringId>(at.step)) == catalog_.text(static_cast<StringId>(step.value));
}

StateTree::Index StateTree::find_child(Index parent, PathStep step, std::uint32_t hash) const {
  if (slots_.empty()) return 0;
  for (std::size_t slot = hash & (slots_.size() - 1);; slot = (slot + 1) & (slots_.size() - 1)) {
    const Index node = slots_[slot];
    if (node == 0 || (nodes_[node].hash == hash && is_child(node, parent, step))) return node;
  }
}

std::uint32_t StateTree::hash_of(Index parent, PathStep step) const {
  const auto text = step.is_position ? std::as_bytes(std::span(&step.value, 1))
                                     : as_bytes(catalog_.text(static_cast<StringId>(step.value)));
  return static_cast<std::uint32_t>(keyed_hash(text, parent));
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

StateTree::Index StateTree::add_child(Index parent, const Node& node) {
  const auto index = static_cast<Index>(nodes_.size());
  nodes_.push_back(node);
  Node& up = nodes_[parent];
  (up.first_child == 0 ? up.first_child : nodes_[up.last_child].next_sibling) = index;
  up.last_child = index;
  if (2 * nodes_.size() > slots_.size()) {
    slots_.assign(std::max<std::size_t>(64, 2 * slots_.size()), 0);
    for (Index at = 1; at < index; ++at) insert_slot(at);
  }
  insert_slot(index);
  return index;
}

void StateTree::insert_slot(Index node) {
  std::size_t slot = nodes_[node].hash & (slots_.size() - 1);
  while (slots_[slot] != 0) slot = (slot + 1) & (slots_.size() - 1);
  slots_[slot] = node;
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
