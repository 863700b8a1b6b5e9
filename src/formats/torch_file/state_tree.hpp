// SPDX-License-Identifier: BSD-3-Clause
// The nested dict that a checkpoint's names and paths describe, rebuilt as torch's set_element() does. Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
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
  struct Node {
    Kind kind;
    std::uint32_t entry;                                              // that made it
    std::uint32_t first_child = 0, last_child = 0, next_sibling = 0;  // 0: none (the root is nobody's child)
    std::int64_t step = 0;         // key (StringId) or position under the parent
    std::int64_t list_length = 0;  // of a list
  };
  struct ChildKey {
    std::uint32_t parent;
    std::int64_t position;  // -1 for a key
    std::string_view key;
    bool operator==(const ChildKey&) const = default;
  };
  struct ChildKeyHash {
    std::size_t operator()(const ChildKey& key) const;
  };

  std::uint32_t child(std::uint32_t parent, PathStep step, Kind kind, std::uint32_t entry);
  [[noreturn]] void collide(std::uint32_t node, std::uint32_t entry) const;
  pickle::Value build_node(std::uint32_t node, pickle::Arena& arena,
                           const std::vector<pickle::Value>& leaf_values,
                           const std::vector<pickle::Value>& strings) const;
  std::vector<std::uint32_t> children(std::uint32_t node) const;

  const Catalog& catalog_;
  bool flat_;
  std::uint64_t padding_left_;
  std::vector<Node> nodes_;
  std::unordered_map<ChildKey, std::uint32_t, ChildKeyHash> lookup_;
};

}  // namespace cairn::torch_file
