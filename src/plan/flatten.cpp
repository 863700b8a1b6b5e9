// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <unordered_set>

#include "base/fail.hpp"
#include "base/keyed_hash.hpp"
#include "base/text.hpp"
#include "cairn/state.hpp"

namespace cairn {
namespace {

constexpr int kMaxDepth = 1000;

/// Whether a list is stored as one object.
bool is_one_object(const StateNode& list, int depth = 0) {
  if (depth > kMaxDepth) fail(ErrorKind::invalid_argument, "state: more than {} levels", kMaxDepth);
  return std::ranges::none_of(list.items, [&](const StateNode& item) {
    return item.kind == StateNode::Kind::tensor || item.kind == StateNode::Kind::dict ||
           (item.kind == StateNode::Kind::list && !is_one_object(item, depth + 1));
  });
}

class Flattening {
 public:
  void walk_dict(const StateNode& dict) {
    if (dict.keys.size() != dict.items.size()) {
      fail(ErrorKind::invalid_argument, "state: a dict of {} keys and {} items", dict.keys.size(),
           dict.items.size());
    }
    for (std::size_t i = 0; i < dict.items.size(); ++i) walk(dict.keys[i], false, dict.items[i]);
  }
  void require_unique() const {
    std::unordered_set<std::string_view, KeyedHash> names(entries.size());
    for (const FlatEntry& entry : entries) {
      if (!names.insert(entry.name).second) {
        fail(ErrorKind::invalid_argument, "state: two values get the name '{}'", escape_name(entry.name));
      }
    }
  }

  std::vector<FlatEntry> entries;

 private:
  void walk(std::string_view step, bool is_position, const StateNode& value) {
    if (cuts_.size() == kMaxDepth) fail(ErrorKind::invalid_argument, "state: more than {} levels", kMaxDepth);
    const std::size_t length = name_.size();
    if (!cuts_.empty()) name_ += '.';
    name_ += step;
    cuts_.push_back({static_cast<std::uint32_t>(step.size()), is_position});
    if (value.kind == StateNode::Kind::dict) {
      walk_dict(value);
    } else if (value.kind == StateNode::Kind::list && !is_one_object(value)) {
      for (std::size_t i = 0; i < value.items.size(); ++i) walk(std::to_string(i), true, value.items[i]);
    } else {
      entries.push_back({name_, cuts_, &value});
    }
    cuts_.pop_back();
    name_.resize(length);
  }

  std::string name_;
  std::vector<NameCut> cuts_;
};

}  // namespace

StateNode StateNode::dict(std::vector<std::pair<std::string, StateNode>> items) {
  StateNode node{Kind::dict, 0, {}, {}};
  for (auto& [key, value] : items) {
    node.keys.push_back(std::move(key));
    node.items.push_back(std::move(value));
  }
  return node;
}

std::vector<FlatEntry> flatten(const StateNode& root) {
  if (root.kind != StateNode::Kind::dict) fail(ErrorKind::invalid_argument, "state: the root is no dict");
  Flattening flattening;
  flattening.walk_dict(root);
  flattening.require_unique();
  return std::move(flattening.entries);
}

}  // namespace cairn
