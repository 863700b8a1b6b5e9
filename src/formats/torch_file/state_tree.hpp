// SPDX-License-Identifier: BSD-3-Clause
// The nested dict that a checkpoint's names and paths describe, rebuilt as torch's set_element() does. Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "cairn/metadata.hpp"
#include "pickle/value.hpp"

namespace cairn::torch_file {

/// Values are set along paths; a path's steps make dicts (a key follows) and lists (a position follows, gaps
/// are None). Keys keep their order of first appearance. Flat: the names are the keys of one dict.
class StateTree {
 public:
  /// `max_padding` bounds the None values that all lists together may be padded with.
  StateTree(const Catalog& catalog, bool flat, std::uint64_t max_padding);

  /// Sets the leaf of this entry (index into catalog().entries()). Throws corrupt, naming both names, when
  /// two entries have one path, when a leaf lies under a leaf, or when one container would be dict and list.
  void add(std::uint32_t entry);

  /// The nested dict; leaf_values[entry] is what stands at each leaf, strings[id] each key.
  pickle::Value build(pickle::Arena& arena, const std::vector<pickle::Value>& leaf_values,
                      const std::vector<pickle::Value>& strings) const;

 private:
  enum class Kind : std::uint8_t { dict, list, leaf };
  using Index = std::uint32_t;  // into nodes_; 0 is the root, which is nobody's child
  struct Node {
    Kind kind;
    std::uint32_t entry;  // that made it
    Index parent = 0;
    std::uint32_t child_count = 0;
    std::int64_t step = 0;  // key (StringId) or position under the parent
    Index first_child = 0, last_child = 0, next_sibling = 0;
    std::int64_t list_length = 0;  // of a list
  };
  struct Values {
    pickle::Arena& arena;
    const std::vector<pickle::Value>& leaves;
    const std::vector<pickle::Value>& strings;
    std::vector<pickle::Value> items;  // of the containers that are being built, innermost last
  };

  // Where a child of a wide container is, in open hashing by parent and step.
  struct Slot {
    std::uint32_t hash;
    Index node;  // 0: free
  };

  Index child(Index parent, PathStep step, Kind kind, std::uint32_t entry);
  bool is_wide(const Node& container) const;
  bool is_step(const Node& node, PathStep step) const;
  Index find_child(Index parent, PathStep step) const;
  Index add_child(const Node& node);
  void pad_list(Index list, std::int64_t position, std::uint32_t entry);

  std::uint32_t hash_of(Index parent, PathStep step) const;
  Index find_slot(Index parent, PathStep step) const;
  void index_child(Index node);
  void insert(Slot entry);
  [[noreturn]] void collide(Index node, std::uint32_t entry) const;
  pickle::Value build_node(Index node, Values& values) const;
  pickle::Value build_dict(const Node& self, Values& values) const;
  pickle::Value build_list(const Node& self, Values& values) const;

  const Catalog& catalog_;
  bool flat_;
  std::uint64_t padding_left_;
  std::vector<Node> nodes_;
  std::vector<Slot> slots_;  // a power of two of them, at least half of them free
  std::size_t indexed_ = 0;
};

}  // namespace cairn::torch_file
