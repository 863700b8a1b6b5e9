// SPDX-License-Identifier: BSD-3-Clause
#include "formats/torch_file/state_pickle.hpp"

#include <array>
#include <map>
#include <string>
#include <unordered_map>

#include "base/fail.hpp"
#include "formats/torch_file/state_tree.hpp"
#include "formats/torch_file/tensor_nodes.hpp"
#include "pickle/persistent_nodes.hpp"
#include "pickle/writer.hpp"

namespace cairn::torch_file {
namespace {

using pickle::Arena;
using pickle::Value;

class StatePickler {
 public:
  StatePickler(const Catalog& catalog, const StateShape& shape, Arena& arena,
               const std::vector<Value>& objects, const FindStorage& find_storage)
      : catalog_(catalog),
        shape_(shape),
        arena_(arena),
        objects_(objects),
        find_storage_(find_storage),
        tensors_(arena) {}

  StatePickle run(std::uint64_t max_padding) {
    StateTree tree(catalog_, shape_.flat, max_padding);
    for (const std::uint32_t entry : shape_.entries) tree.add(entry);
    const Value root = tree.build(arena_, leaf_values(), keys());
    return written(root, max_padding);  // the size of the metadata, which says more of each tensor
  }

  StatePickle run_object(std::uint32_t object, Value value) {
    find_storages(object, value);
    return written(value, 0);
  }

 private:
  // A storage that a persistent node stands for, before it has a number.
  struct Pending {
    RecordContent source;
    Value storage_class, count;
    std::int64_t number = -1;
  };

  StatePickle written(Value root, std::uint64_t expected_bytes) {
    make_words();
    ByteWriter out;
    out.reserve(expected_bytes);
    pickle::write_protocol2(arena_, root, out, [this](Value node) { return storage_id(node); });
    result_.pickle = out.take();
    return std::move(result_);
  }

  std::vector<Value> keys() {
    std::vector<Value> values;
    for (StringId id = 0; id < catalog_.string_count(); ++id)
      values.push_back(arena_.string(catalog_.text(id)));
    for (const auto& [text, value] : shape_.integer_keys) values[text] = arena_.integer(value);
    return values;
  }

  std::vector<Value> leaf_values() {
    std::vector<Value> values(catalog_.entries().size());
    for (const std::uint32_t index : shape_.entries) {
      const Entry& entry = catalog_.entries()[index];
      if (!entry.is_tensor) find_storages(entry.index, objects_[entry.index]);
      values[index] = entry.is_tensor ? tensor_value(entry.index) : objects_[entry.index];
    }
    return values;
  }

  Value tensor_value(std::uint32_t index) {
    const TensorInfo& tensor = catalog_.tensors()[index];
    const std::uint64_t bytes = catalog_.byte_count(tensor);
    // a number for an id: tensors need no entry in nodes_
    const Value node = arena_.persistent(arena_.integer(static_cast<std::int64_t>(pending_.size())));
    const RecordContent content{.is_tensor = true, .dtype = tensor.dtype, .tensor = index, .bytes = bytes};
    pending_.push_back(
        {content, tensors_.storage_class(tensor.dtype), tensors_.storage_count(tensor.dtype, bytes)});
    return tensors_.tensor(tensor.dtype, catalog_.shape(tensor), node);
  }

  void find_storages(std::uint32_t object, Value value) {
    std::map<std::string, std::size_t, std::less<>> by_key;  // within one object equal keys are one storage
    for (const Value node : pickle::persistent_nodes(arena_, value)) {
      const Value id = arena_.persistent_id(node);
      const auto source = find_storage_(object, id);  // checks the id's form
      const auto parts = arena_.items(id);
      const auto [at, inserted] = by_key.try_emplace(std::string(arena_.text(parts[2])), pending_.size());
      if (inserted) pending_.push_back({source, parts[1], parts[4]});
      nodes_.emplace(node.bits, at->second);
    }
  }

  // All values that ids are made of: nothing may be added to the arena while it is written.
  void make_words() {
    storage_ = arena_.string("storage");
    cpu_ = arena_.string("cpu");
    for (std::size_t i = 0; i < pending_.size(); ++i)
      numbers_.push_back(arena_.own_string(std::to_string(i)));
  }

  std::span<const Value> storage_id(Value node) {
    Pending& pending = pending_[pending_of(node)];
    if (pending.number < 0) {
      pending.number = static_cast<std::int64_t>(result_.storages.size());
      result_.storages.push_back(pending.source);
    }
    id_ = {storage_, pending.storage_class, numbers_[static_cast<std::size_t>(pending.number)], cpu_,
           pending.count};
    return id_;
  }

  std::size_t pending_of(Value node) const {
    const Value id = arena_.persistent_id(node);
    if (id.kind() == pickle::Kind::integer) return static_cast<std::size_t>(arena_.as_integer(id));
    const auto found = nodes_.find(node.bits);
    if (found == nodes_.end()) fail_corrupt("a storage is referred to from outside its object");
    return found->second;
  }

  const Catalog& catalog_;
  const StateShape& shape_;
  Arena& arena_;
  const std::vector<Value>& objects_;
  const FindStorage& find_storage_;
  TensorNodes tensors_;
  StatePickle result_;
  std::vector<Pending> pending_;
  std::unordered_map<std::uint64_t, std::size_t> nodes_;  // an object's persistent node -> pending_
  std::vector<Value> numbers_;
  std::array<Value, 5> id_;
  Value storage_, cpu_;
};

}  // namespace

StatePickle pickle_state(const Catalog& catalog, const StateShape& shape, Arena& arena,
                         const std::vector<Value>& objects, std::uint64_t max_padding,
                         const FindStorage& find_storage) {
  return StatePickler(catalog, shape, arena, objects, find_storage).run(max_padding);
}

StatePickle pickle_object(const Catalog& catalog, Arena& arena, std::uint32_t object, Value value,
                          const FindStorage& find_storage) {
  const StateShape no_entries;
  const std::vector<Value> no_objects;
  return StatePickler(catalog, no_entries, arena, no_objects, find_storage).run_object(object, value);
}

}  // namespace cairn::torch_file
