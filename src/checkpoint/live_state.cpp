// SPDX-License-Identifier: BSD-3-Clause
#include "cairn/live_state.hpp"

#include <algorithm>
#include <bit>
#include <iterator>

#include "base/fail.hpp"
#include "base/text.hpp"

namespace cairn {
namespace {

// Bytes of what objects hold; their structure counts as 8 a value.
struct HeldBytes {
  std::uint64_t operator()(const std::string& text) const { return text.size(); }
  std::uint64_t operator()(const Object::Data& data) const { return 2 * data.bytes.size(); }
  std::uint64_t operator()(const Object::Stored& item) const { return item.bytes.size(); }
  std::uint64_t operator()(const Object::List& list) const { return of(list); }
  std::uint64_t operator()(const Object::Tuple& tuple) const { return of(tuple.items); }
  std::uint64_t operator()(const Object::Dict& dict) const {
    std::uint64_t bytes = 0;
    for (const auto& [key, item] : dict.items) bytes += of(key) + of(item);
    return bytes;
  }
  template <class Small>
  std::uint64_t operator()(const Small&) const {
    return 0;
  }

  static std::uint64_t of(const Object& object) { return 8 + std::visit(HeldBytes{}, object.value()); }
  static std::uint64_t of(const Object::List& items) {
    std::uint64_t bytes = 0;
    for (const Object& item : items) bytes += of(item);
    return bytes;
  }
};

// About how long the item of an object is; rounded up, so that a counter that grows keeps its plan.
std::uint64_t stored_bytes(const Object& object) { return std::bit_ceil(1024 + HeldBytes::of(object)); }

void require_fit(std::string_view name, DType dtype, std::span<const std::int64_t> sizes,
                 const TensorView& view) {
  if (view.dtype != dtype) {
    fail(ErrorKind::invalid_argument, "'{}': the view is {}, the tensor {}", escape_name(name),
         info(view.dtype).name, info(dtype).name);
  }
  if (!std::ranges::equal(view.sizes, sizes) || view.strides.size() != sizes.size()) {
    fail(ErrorKind::invalid_argument, "'{}': the view has shape {} and {} strides, the layout gives {}",
         escape_name(name), to_string(view.sizes), view.strides.size(), to_string(sizes));
  }
}

void require_memory(std::string_view name, const TensorView& view) {
  if (view.device != nullptr && !view.is_contiguous())
    fail(ErrorKind::invalid_argument, "'{}': a view of device memory with gaps", escape_name(name));
  if (view.data == nullptr && element_count(view.sizes) > 0)
    fail(ErrorKind::invalid_argument, "'{}': a view of no memory", escape_name(name));
}

// A dict's key as Python's str() spells it.
std::string spelled(const Object& key) {
  if (key.is<std::string>()) return key.as<std::string>();
  if (key.is<std::int64_t>()) return std::to_string(key.as<std::int64_t>());
  if (key.is<bool>()) return key.as<bool>() ? "True" : "False";
  if (key.is_none()) return "None";
  fail(ErrorKind::invalid_argument, "state: a dict's key is neither text, int, bool nor None");
}

/// Leaves of a tree by number, and the tree that flatten() takes.
class Tree {
 public:
  StateNode node(const LiveNode& node) { return std::visit(*this, node.value()); }
  StateNode node(const Object& object) {
    if (object.is<Object::Dict>()) {
      std::vector<std::pair<std::string, StateNode>> items;
      for (const auto& [key, item] : object.as<Object::Dict>().items)
        items.emplace_back(spelled(key), node(item));
      return StateNode::dict(std::move(items));
    }
    if (!object.is<Object::List>()) return leaf(&object, nullptr);
    return list(object.as<Object::List>());
  }

  StateNode operator()(const LiveNode::Tensor& tensor) { return leaf(nullptr, &tensor); }
  StateNode operator()(const Object& object) { return node(object); }
  StateNode operator()(const LiveNode::List& items) { return list(items); }
  StateNode operator()(const LiveNode::Dict& dict) {
    std::vector<std::pair<std::string, StateNode>> items;
    for (const auto& [key, item] : dict) items.emplace_back(key, node(item));
    return StateNode::dict(std::move(items));
  }

  const LiveNode::Tensor* tensor(const StateNode& node) const { return leaves_[node.id].tensor; }
  /// Of a leaf, or of a list that is one object.
  Object object(const StateNode& node) const {
    if (node.kind == StateNode::Kind::object) return *leaves_[node.id].object;
    Object::List items;
    for (const StateNode& item : node.items) items.push_back(object(item));
    return items;
  }

 private:
  struct Leaf {
    const Object* object;
    const LiveNode::Tensor* tensor;
  };
  StateNode leaf(const Object* object, const LiveNode::Tensor* tensor) {
    leaves_.push_back({object, tensor});
    const std::uint64_t id = leaves_.size() - 1;
    return tensor != nullptr ? StateNode::tensor(id) : StateNode::object(id);
  }
  StateNode list(const auto& items) {
    std::vector<StateNode> nodes;
    for (const auto& item : items) nodes.push_back(node(item));
    return StateNode::list(std::move(nodes));
  }

  std::vector<Leaf> leaves_;
};

}  // namespace

void LiveState::add_tensor(std::string_view name, const TensorLayout& layout, const TensorView& local,
                           std::span<const NameCut> cuts) {
  require_fit(name, local.dtype, layout.local_shape(description_.rank()), local);
  std::vector<TensorView> parts;
  layout.for_each_box(description_.rank(), [&](const OwnedBox& owned) {
    parts.push_back(local.part(owned.local_offsets, owned.box.sizes));
    require_memory(name, parts.back());
  });
  description_.add_tensor(name, local.dtype, layout, cuts);
  first_.push_back(views_.size());
  std::ranges::move(parts, std::back_inserter(views_));
}

void LiveState::add_tensor(std::string_view name, DType dtype, std::span<const std::int64_t> shape,
                           std::span<const LocalBox> boxes, std::span<const NameCut> cuts) {
  for (const LocalBox& box : boxes) {
    require_fit(name, dtype, box.box.sizes, box.view);
    require_memory(name, box.view);
  }
  description_.add_tensor(name, dtype, shape, cuts);
  first_.push_back(views_.size());
  for (const LocalBox& box : boxes) {
    description_.add_box(box.box);
    views_.push_back(box.view);
  }
}

void LiveState::add_object(std::string_view name, Object object, std::span<const NameCut> cuts) {
  description_.add_object(name, stored_bytes(object), cuts);
  first_.push_back(objects_.size());
  objects_.push_back(std::move(object));
}

void LiveState::add_rank_object(std::string_view name, Object object, std::span<const NameCut> cuts) {
  description_.add_rank_object(name, stored_bytes(object), cuts);
  first_.push_back(objects_.size());
  objects_.push_back(std::move(object));
}

void LiveState::add_tree(const LiveNode::Dict& root) {
  Tree tree;
  const StateNode nodes = tree(root);
  for (const FlatEntry& entry : flatten(nodes)) {
    if (entry.value->kind == StateNode::Kind::tensor) {
      const LiveNode::Tensor& tensor = *tree.tensor(*entry.value);
      add_tensor(entry.name, tensor.layout, tensor.local, entry.cuts);
    } else {
      add_object(entry.name, tree.object(*entry.value), entry.cuts);
    }
  }
}

}  // namespace cairn
