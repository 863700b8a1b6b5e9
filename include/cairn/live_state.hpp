// SPDX-License-Identifier: BSD-3-Clause
// Row: checkpoint. A live state: tensors in the memory of a job's ranks, each with the layout that says which
// rank has which part, and objects. What a save stores and a load fills. Local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cairn/layout.hpp"
#include "cairn/object.hpp"
#include "cairn/state.hpp"
#include "cairn/tensor.hpp"

namespace cairn {

/// A nested state, as Python's state dicts are.
class LiveNode {
 public:
  struct Tensor {
    TensorLayout layout;
    TensorView local;  ///< what this rank has, of the shape TensorLayout::local_shape(rank)
  };
  using Dict = std::vector<std::pair<std::string, LiveNode>>;  ///< keys as Python's str() spells them
  using List = std::vector<LiveNode>;

  LiveNode(Tensor tensor) : value_(std::move(tensor)) {}  // NOLINT: they are what they hold
  LiveNode(Object object) : value_(std::move(object)) {}  // NOLINT
  LiveNode(Dict dict) : value_(std::move(dict)) {}        // NOLINT
  LiveNode(List list) : value_(std::move(list)) {}        // NOLINT
  LiveNode(TensorLayout layout, TensorView local) : value_(Tensor{std::move(layout), std::move(local)}) {}

  const std::variant<Tensor, Object, Dict, List>& value() const { return value_; }

 private:
  std::variant<Tensor, Object, Dict, List> value_;
};

/// What one rank has of a state. Every rank of the job adds what it knows, in one order where it can: a name
/// that several ranks add means one tensor or object. Holds views: the memory behind them outlives it and
/// stays as it is during a save. Entries are referred to by their index, in the order in which they came.
///
/// Adding throws invalid_argument: a name twice, a view that does not fit its layout, cuts that don't spell
/// the name.
class LiveState {
 public:
  /// `rank` of the communicator that will save or load.
  explicit LiveState(int rank) : description_(rank) {}

  // --- building ------------------------------------------------------------------------------------------
  /// The rank's part of a tensor: `local` has the shape layout.local_shape(rank), in any strides.
  void add_tensor(std::string_view name, const TensorLayout& layout, const TensorView& local,
                  std::span<const NameCut> cuts = {});
  struct LocalBox {
    Box box;          ///< global
    TensorView view;  ///< of the box's sizes
  };
  /// The rank's boxes, listed; none where it has nothing of the tensor.
  void add_tensor(std::string_view name, DType dtype, std::span<const std::int64_t> shape,
                  std::span<const LocalBox> boxes, std::span<const NameCut> cuts = {});
  /// Equal on all ranks that add it: any of them stores it.
  void add_object(std::string_view name, Object object, std::span<const NameCut> cuts = {});
  /// This rank's own, stored as `name`.rank_R.
  void add_rank_object(std::string_view name, Object object, std::span<const NameCut> cuts = {});
  /// All of a nested state, flattened as torch does it (state.hpp): dicts, and lists that hold a tensor or a
  /// dict, are walked; other lists and tuples are one object each.
  void add_tree(const LiveNode::Dict& root);

  // --- looking -------------------------------------------------------------------------------------------
  /// Names, types, shapes and boxes, as the planners take them.
  const RankState& description() const { return description_; }
  std::size_t size() const { return description_.size(); }
  /// Of a box of a tensor.
  const TensorView& view(std::size_t entry, std::size_t box) const { return views_[first_[entry] + box]; }
  const Object& object(std::size_t entry) const { return objects_[first_[entry]]; }
  /// What a load does with what it found.
  void set_object(std::size_t entry, Object object) { objects_[first_[entry]] = std::move(object); }

 private:
  RankState description_;
  std::vector<std::size_t> first_;  // of each entry: its first view, or its object
  std::vector<TensorView> views_;
  std::vector<Object> objects_;
};

}  // namespace cairn
