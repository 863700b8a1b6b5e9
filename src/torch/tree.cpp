// SPDX-License-Identifier: BSD-3-Clause
#include "base/fail.hpp"
#include "base/text.hpp"
#include "cairn/torch.hpp"

namespace cairn {
namespace {

[[noreturn]] void refuse(std::string_view name, std::string_view what) {
  fail(ErrorKind::unsupported, "'{}': {}", escape_name(name), what);
}

/// As Python's str() spells it.
std::string spelled_key(const std::string& name, const c10::IValue& key) {
  if (key.isString()) return key.toStringRef();
  if (key.isInt()) return std::to_string(key.toInt());
  if (key.isBool()) return key.toBool() ? "True" : "False";
  if (key.isNone()) return "None";
  refuse(name, "a key of type " + key.tagKind() + " in a dict");
}

std::string below(const std::string& name, std::string_view step) {
  return name.empty() ? std::string(step) : name + "." + std::string(step);
}

Object to_object(const std::string& name, const c10::IValue& value) {
  if (value.isNone()) return {};
  if (value.isBool()) return value.toBool();
  if (value.isInt()) return Object(std::int64_t{value.toInt()});
  if (value.isDouble()) return value.toDouble();
  if (value.isString()) return value.toStringRef();
  Object::List items;
  if (value.isTuple()) {
    for (const c10::IValue& item : value.toTupleRef().elements()) items.push_back(to_object(name, item));
    return Object::Tuple{std::move(items)};
  }
  if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) items.push_back(to_object(name, item));
    return items;
  }
  if (value.isGenericDict()) {
    Object::Dict dict;
    for (const auto& item : value.toGenericDict())
      dict.items.emplace_back(to_object(name, item.key()), to_object(name, item.value()));
    return dict;
  }
  refuse(name, "a value of type " + value.tagKind() + (value.isTensor() ? " in a tuple" : ""));
}

}  // namespace

LiveNode TorchState::tensor_node(std::string_view name, const at::Tensor& tensor, const LayoutOf& layout_of) {
  TensorLayout layout = layout_for(name, tensor, layout_of);
  const TensorView view = view_of(name, tensor, layout);
  return {std::move(layout), view};
}

LiveNode TorchState::node(const std::string& name, const c10::IValue& value, const LayoutOf& layout_of) {
  if (value.isTensor()) return tensor_node(name, value.toTensor(), layout_of);
  if (value.isGenericDict()) return dict_node(name, value, layout_of);
  if (!value.isList()) return to_object(name, value);
  LiveNode::List items;
  for (const c10::IValue& item : value.toListRef())
    items.push_back(node(below(name, std::to_string(items.size())), item, layout_of));
  return items;
}

LiveNode::Dict TorchState::dict_node(const std::string& name, const c10::IValue& value,
                                     const LayoutOf& layout_of) {
  LiveNode::Dict dict;
  for (const auto& item : value.toGenericDict()) {
    const std::string key = spelled_key(name, item.key());
    dict.emplace_back(key, node(below(name, key), item.value(), layout_of));
  }
  return dict;
}

void TorchState::add_tree(const c10::IValue& dict, const LayoutOf& layout_of) {
  if (!dict.isGenericDict()) fail(ErrorKind::invalid_argument, "state: the root is no dict");
  live_.add_tree(dict_node("", dict, layout_of));
}

}  // namespace cairn
