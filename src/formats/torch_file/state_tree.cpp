// SPDX-License-Identifier: BSD-3-Clause
#include "formats/torch_file/state_tree.hpp"

#include <algorithm>
#include <functional>

#include "base/byte_writer.hpp"
#include "base/fail.hpp"
#include "base/keyed_hash.hpp"
#include "base/text.hpp"

namespace cairn::torch_file {
namespace {

constexpr std::size_t kMaxDepth = 900;  // the pickle writer, like CPython's, nests at most 1 000 levels

}  // namespace

std::size_t StateTree::ChildKeyHash::operator()(const ChildKey& key) const {
  const std::uint64_t place = (std::uint64_t{key.parent} << 32) + static_cast<std::uint64_t>(key.position);
  return keyed_hash(as_bytes(key.key), place);
}

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
  std::uint32_t node = 0;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const Kind kind = i + 1 == path.size() ? Kind::leaf : path[i + 1].is_position ? Kind::list : Kind::dict;
    node = child(node, path[i], kind, index);
  }
}

std::uint32_t StateTree::child(std::uint32_t parent, PathStep step, Kind kind, std::uint32_t entry) {
  if (nodes_[parent].kind != (step.is_position ? Kind::list : Kind::dict)) collide(parent, entry);
  const ChildKey key{
      parent, step.is_position ? step.value : -1,
      step.is_position ? std::string_view{} : catalog_.text(static_cast<StringId>(step.value))};
  const auto [at, inserted] = lookup_.try_emplace(key, static_cast<std::uint32_t>(nodes_.size()));
  if (!inserted) {
    // a leaf where something is, or a container where a leaf or the other kind of container is
    if (kind == Kind::leaf || nodes_[at->second].kind != kind) collide(at->second, entry);
    return at->second;
  }
  if (step.is_position && step.value >= nodes_[parent].list_length) {
    const auto padding = static_cast<std::uint64_t>(step.value - nodes_[parent].list_length);
    if (padding > padding_left_) {
      fail_corrupt("'{}': list position {} leaves more gaps than the metadata can mean",
                   escape_name(catalog_.name(catalog_.entries()[entry])), step.value);
    }
    padding_left_ -= padding;
    nodes_[parent].list_length = step.value + 1;
  }
  nodes_.push_back({kind, entry, 0, 0, 0, step.value});
  Node& up = nodes_[parent];
  if (up.first_child == 0)
    up.first_child = at->second;
  else
    nodes_[up.last_child].next_sibling = at->second;
  up.last_child = at->second;
  return at->second;
}

void StateTree::collide(std::uint32_t node, std::uint32_t entry) const {
  const auto name = [&](std::uint32_t of) { return escape_name(catalog_.name(catalog_.entries()[of])); };
  fail_corrupt("'{}' and '{}' cannot both be in one nested state: their paths collide",
               name(nodes_[node].entry), name(entry));
}

std::vector<std::uint32_t> StateTree::children(std::uint32_t node) const {
  std::vector<std::uint32_t> out;
  for (std::uint32_t at = nodes_[node].first_child; at != 0; at = nodes_[at].next_sibling) out.push_back(at);
  if (nodes_[node].kind == Kind::list)
    std::ranges::sort(out, {}, [&](std::uint32_t at) { return nodes_[at].step; });
  return out;
}

pickle::Value StateTree::build(pickle::Arena& arena, const std::vector<pickle::Value>& leaf_values,
                               const std::vector<pickle::Value>& strings) const {
  return build_node(0, arena, leaf_values, strings);
}

pickle::Value StateTree::build_node(std::uint32_t node, pickle::Arena& arena,
                                    const std::vector<pickle::Value>& leaf_values,
                                    const std::vector<pickle::Value>& strings) const {
  const Node& self = nodes_[node];
  if (self.kind == Kind::leaf) return leaf_values[self.entry];
  const auto below = children(node);
  std::vector<pickle::Value> items;
  if (self.kind == Kind::list) items.resize(static_cast<std::size_t>(self.list_length));
  for (const std::uint32_t at : below) {
    const pickle::Value value = build_node(at, arena, leaf_values, strings);
    if (self.kind == Kind::list) {
      items[static_cast<std::size_t>(nodes_[at].step)] = value;
    } else {
      items.push_back(strings[static_cast<std::size_t>(nodes_[at].step)]);
      items.push_back(value);
    }
  }
  const pickle::Value container = self.kind == Kind::list ? arena.list() : arena.dict();
  if (self.kind == Kind::list)
    arena.append_all(container, items);
  else
    arena.set_all(container, items);
  return container;
}

}  // namespace cairn::torch_file
