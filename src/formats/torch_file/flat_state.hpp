// SPDX-License-Identifier: BSD-3-Clause
// The value of a torch file under flat names, as torch's own flattening makes them. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/state.hpp"
#include "pickle/value.hpp"

namespace cairn::torch_file {

/// What flattening, which leaves nothing of an empty dict, is to do with those.
enum class EmptyDicts : std::uint8_t {
  drop,  ///< as torch
  keep,  ///< each is an object
};

class FlatState {
 public:
  /// One step of a path. `key` lives in the state.
  struct Step {
    std::string_view key;   ///< of a dict, as Python's str() spells it
    bool is_integer;        ///< the key is an int
    std::int64_t position;  ///< in a list; -1 for a key
  };
  using Visit = std::function<void(std::string_view name, std::span<const Step> path, pickle::Value value,
                                   bool is_tensor)>;

  /// Dicts, OrderedDicts, defaultdicts and Counters are dicts; lists are walked where they hold tensors or
  /// dicts; all else, tuples among them, is a tensor or an object. `arena` outlives the state;
  /// `pickle_bytes` bounds what values that are shared may unfold to. Throws unsupported when `root` is no
  /// dict, for keys that are neither str nor int, and when two values get one name; corrupt beyond the
  /// bounds.
  FlatState(const pickle::Arena& arena, pickle::Value root, std::size_t pickle_bytes, EmptyDicts empty_dicts);
  FlatState(const FlatState&) = delete;  // entries point into the nodes
  FlatState& operator=(const FlatState&) = delete;

  /// Gives each entry in order.
  void visit_all(const Visit& visit) const;
  std::size_t size() const { return entries_.size(); }
  /// Names of empty dicts of which nothing is left: the first few.
  const std::vector<std::string>& dropped() const { return dropped_; }
  std::size_t dropped_count() const { return dropped_count_; }

 private:
  struct Visiting;

  StateNode build(pickle::Value value, int depth);
  StateNode build_dict(std::span<const pickle::Value> items, pickle::Value value, int depth);
  StateNode build_list(pickle::Value value, int depth);
  StateNode leaf(StateNode::Kind kind, pickle::Value value);
  std::string key_text(pickle::Value key) const;
  void visit(const StateNode& node, Visiting& visiting) const;
  void flatten_root();

  const pickle::Arena& arena_;
  const EmptyDicts empty_dicts_;
  const std::size_t pickle_bytes_;
  std::size_t nodes_ = 0, name_bytes_ = 0;
  std::string name_;                             // of the value that is built
  StateNode root_;                               // dicts have ids of integer_keys_, leaves of values_
  std::vector<std::vector<bool>> integer_keys_;  // of dicts that have some
  std::vector<pickle::Value> values_;
  std::vector<FlatEntry> entries_;
  std::vector<std::string> dropped_;
  std::size_t dropped_count_ = 0;
};

}  // namespace cairn::torch_file
