// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <cstring>

#include "cairn/torch.hpp"
#include "torch/guarded.hpp"

namespace cairn {
namespace {

c10::IValue key_of(const Object& key) {
  if (key.is<Object::List>() || key.is<Object::Dict>() || key.is<Object::Tuple>() || key.is<Object::Data>())
    fail(ErrorKind::unsupported, "a dict's key that libtorch cannot have");
  return to_ivalue(key);
}

struct AsIValue {
  c10::IValue operator()(std::monostate) const { return {}; }
  c10::IValue operator()(bool value) const { return value; }
  c10::IValue operator()(std::int64_t value) const { return value; }
  c10::IValue operator()(double value) const { return value; }
  c10::IValue operator()(const std::string& text) const { return text; }
  c10::IValue operator()(const Object::Data& data) const {
    at::Tensor bytes = at::empty({static_cast<std::int64_t>(data.bytes.size())}, at::kByte);
    if (!data.bytes.empty()) std::memcpy(bytes.mutable_data_ptr(), data.bytes.data(), data.bytes.size());
    return bytes;
  }
  c10::IValue operator()(const Object::List& list) const {
    c10::impl::GenericList items(c10::AnyType::get());
    for (const Object& item : list) items.push_back(to_ivalue(item));
    return items;
  }
  c10::IValue operator()(const Object::Tuple& tuple) const {
    std::vector<c10::IValue> items;
    for (const Object& item : tuple.items) items.push_back(to_ivalue(item));
    return c10::ivalue::Tuple::create(std::move(items));
  }
  c10::IValue operator()(const Object::Dict& dict) const {
    c10::impl::GenericDict items(c10::AnyType::get(), c10::AnyType::get());
    for (const auto& [key, item] : dict.items) items.insert_or_assign(key_of(key), to_ivalue(item));
    return items;
  }
  c10::IValue operator()(const Object::Stored&) const {
    fail(ErrorKind::unsupported, "a value of a Python class: libtorch has none");
  }
};

}  // namespace

c10::IValue to_ivalue(const Object& object) {
  return guarded("object", [&] { return std::visit(AsIValue{}, object.value()); });
}

at::Tensor to_tensor(LoadedTensor loaded) {
  return guarded(loaded.name, [&] {
    const at::TensorOptions options(scalar_type_of(loaded.dtype));
    auto bytes = std::make_shared<std::vector<std::byte>>(std::move(loaded.bytes));
    if (bytes->empty()) return at::empty(loaded.shape, options);
    return at::from_blob(
        bytes->data(), loaded.shape, [bytes](void*) {}, options);
  });
}

}  // namespace cairn
