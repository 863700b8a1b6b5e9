// SPDX-License-Identifier: BSD-3-Clause
#include "pickle/globals.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "base/fail.hpp"
#include "pickle/walk.hpp"

namespace cairn::pickle {
namespace {

// Sorted.
// clang-format off
constexpr std::string_view kSafe[] = {
    "_codecs.encode", "builtins.bytearray", "builtins.complex", "builtins.set", "collections.Counter",
    "collections.OrderedDict", "torch.BFloat16Storage", "torch.BFloat16Tensor", "torch.BoolStorage",
    "torch.BoolTensor", "torch.ByteStorage", "torch.ByteTensor", "torch.CharStorage", "torch.CharTensor",
    "torch.ComplexDoubleStorage", "torch.ComplexFloatStorage", "torch.DoubleStorage",
    "torch.DoubleTensor", "torch.FloatStorage", "torch.FloatTensor", "torch.HalfStorage",
    "torch.HalfTensor", "torch.IntStorage", "torch.IntTensor", "torch.LongStorage", "torch.LongTensor",
    "torch.QInt32Storage", "torch.QInt8Storage", "torch.QUInt2x4Storage", "torch.QUInt4x2Storage",
    "torch.QUInt8Storage", "torch.ShortStorage", "torch.ShortTensor", "torch.Size", "torch.Tensor",
    "torch._tensor._rebuild_from_type_v2", "torch._utils._rebuild_device_tensor_from_cpu_tensor",
    "torch._utils._rebuild_device_tensor_from_numpy", "torch._utils._rebuild_meta_tensor_no_storage",
    "torch._utils._rebuild_nested_tensor", "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_parameter_with_state", "torch._utils._rebuild_qtensor",
    "torch._utils._rebuild_sparse_tensor", "torch._utils._rebuild_tensor",
    "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor_v3",
    "torch._utils._rebuild_wrapper_subclass", "torch.bfloat16", "torch.bits16", "torch.bits1x8",
    "torch.bits2x4", "torch.bits4x2", "torch.bits8", "torch.bool", "torch.complex128", "torch.complex32",
    "torch.complex64", "torch.cuda.BFloat16Storage", "torch.cuda.BFloat16Tensor",
    "torch.cuda.BoolStorage", "torch.cuda.BoolTensor", "torch.cuda.ByteStorage", "torch.cuda.ByteTensor",
    "torch.cuda.CharStorage", "torch.cuda.CharTensor", "torch.cuda.ComplexDoubleStorage",
    "torch.cuda.ComplexFloatStorage", "torch.cuda.DoubleStorage", "torch.cuda.DoubleTensor",
    "torch.cuda.FloatStorage", "torch.cuda.FloatTensor", "torch.cuda.HalfStorage",
    "torch.cuda.HalfTensor", "torch.cuda.IntStorage", "torch.cuda.IntTensor", "torch.cuda.LongStorage",
    "torch.cuda.LongTensor", "torch.cuda.ShortStorage", "torch.cuda.ShortTensor",
    "torch.cuda.sparse.BFloat16Tensor", "torch.cuda.sparse.ByteTensor", "torch.cuda.sparse.CharTensor",
    "torch.cuda.sparse.DoubleTensor", "torch.cuda.sparse.FloatTensor", "torch.cuda.sparse.HalfTensor",
    "torch.cuda.sparse.IntTensor", "torch.cuda.sparse.LongTensor", "torch.cuda.sparse.ShortTensor",
    "torch.device", "torch.float16", "torch.float32", "torch.float4_e2m1fn_x2", "torch.float64",
    "torch.float8_e4m3fn", "torch.float8_e4m3fnuz", "torch.float8_e5m2", "torch.float8_e5m2fnuz",
    "torch.float8_e8m0fnu", "torch.int1", "torch.int16", "torch.int2", "torch.int3", "torch.int32",
    "torch.int4", "torch.int5", "torch.int6", "torch.int64", "torch.int7", "torch.int8",
    "torch.nn.parameter.Parameter", "torch.per_channel_affine", "torch.per_channel_affine_float_qparams",
    "torch.per_channel_symmetric", "torch.per_tensor_affine", "torch.per_tensor_symmetric",
    "torch.qint32", "torch.qint8", "torch.quint2x4", "torch.quint4x2", "torch.quint8",
    "torch.serialization._get_layout", "torch.sparse.BFloat16Tensor", "torch.sparse.ByteTensor",
    "torch.sparse.CharTensor", "torch.sparse.DoubleTensor", "torch.sparse.FloatTensor",
    "torch.sparse.HalfTensor", "torch.sparse.IntTensor", "torch.sparse.LongTensor",
    "torch.sparse.ShortTensor", "torch.storage.TypedStorage", "torch.storage.UntypedStorage",
    "torch.uint1", "torch.uint16", "torch.uint2", "torch.uint3", "torch.uint32", "torch.uint4",
    "torch.uint5", "torch.uint6", "torch.uint64", "torch.uint7", "torch.uint8"};
// clang-format on

/// The globals that writing `value` itself names.
std::vector<Arena::GlobalName> named_by(const Arena& arena, Value value) {
  switch (value.kind()) {
    case Kind::global: {
      const auto global = arena.global_name(value);
      if (global.name.find('.') == std::string_view::npos) return {global};
      return {{"builtins", "getattr"}, global};
    }
    case Kind::bytes:
      if (arena.text(value).empty()) return {{"builtins", "bytes"}};
      return {{"_codecs", "encode"}};
    case Kind::bytearray:
      if (arena.text(value).empty()) return {{"builtins", "bytearray"}};
      return {{"builtins", "bytearray"}, {"_codecs", "encode"}};
    case Kind::set:
      return {{"builtins", "set"}};
    case Kind::frozenset:
      return {{"builtins", "frozenset"}};
    default:
      return {};
  }
}

bool is_one_of(const Arena& arena, Value callable, std::initializer_list<Arena::GlobalName> names) {
  return std::any_of(names.begin(), names.end(), [&](const Arena::GlobalName& name) {
    return arena.is_global(callable, name.module, name.name);
  });
}

std::string spelled(const Arena& arena, Value callable) {
  if (callable.kind() != Kind::global) return fmt::format("a {}", to_string(callable.kind()));
  const auto [module, name] = arena.global_name(callable);
  return fmt::format("{}.{}", module, name);
}

std::vector<std::string> faults_of_object(const Arena& arena, Value value) {
  const auto object = arena.object_view(value);
  const std::string callable = spelled(arena, object.callable);
  std::vector<std::string> faults;
  if (object.callable.kind() != Kind::global) faults.push_back("a call of " + callable);
  if (object.how == Construct::newobj_ex) faults.push_back("keyword arguments of " + callable);
  if (!object.list_items.empty()) faults.push_back("list items of " + callable);
  const bool mapping =
      is_one_of(arena, object.callable, {{"collections", "OrderedDict"}, {"collections", "Counter"}});
  if (!object.dict_items.empty() && !mapping) faults.push_back("dict items of " + callable);
  const bool builds = mapping || is_one_of(arena, object.callable,
                                           {{"torch.nn.parameter", "Parameter"}, {"torch", "Tensor"}});
  if (object.state && !builds) faults.push_back("state of " + callable);
  return faults;
}

std::vector<std::string> faults_of_persistent(const Arena& arena, Value value) {
  const Value id = arena.persistent_id(value);
  if (id.kind() == Kind::integer) return {};
  if (id.kind() != Kind::tuple) return {fmt::format("a persistent id of kind {}", to_string(id.kind()))};
  const auto items = arena.items(id);
  if (items.empty() || (items[0].kind() == Kind::string && arena.text(items[0]) == "storage")) return {};
  return {"a persistent id that is no storage"};
}

std::vector<std::string> faults_of(const Arena& arena, Value value) {
  std::vector<std::string> faults;
  for (const auto& [module, name] : named_by(arena, value)) {
    if (!torch_safe_global(module, name)) faults.push_back(fmt::format("global {}.{}", module, name));
  }
  const auto add = [&](const std::vector<std::string>& more) {
    faults.insert(faults.end(), more.begin(), more.end());
  };
  if (value.kind() == Kind::object) add(faults_of_object(arena, value));
  if (value.kind() == Kind::persistent) add(faults_of_persistent(arena, value));
  if (value.kind() == Kind::big_integer && arena.text(value).size() >= 256)
    add({"an integer of 256 bytes or more"});
  return faults;
}

}  // namespace

std::vector<Arena::GlobalName> collect_globals(const Arena& arena, Value root) {
  std::vector<Arena::GlobalName> globals;
  std::set<std::pair<std::string_view, std::string_view>> known;
  Walk walk(arena, root);
  for (Value value; walk.next(value);) {
    for (const auto& global : named_by(arena, value)) {
      if (known.emplace(global.module, global.name).second) globals.push_back(global);
    }
  }
  return globals;
}

bool torch_safe_global(std::string_view module, std::string_view name) {
  const std::string path = fmt::format("{}.{}", module, name);
  return std::binary_search(std::begin(kSafe), std::end(kSafe), path);
}

std::vector<std::string> unsafe_parts(const Arena& arena, Value root) {
  std::vector<std::string> parts;
  std::set<std::string> known;
  Walk walk(arena, root);
  for (Value value; walk.next(value);) {
    for (auto& fault : faults_of(arena, value)) {
      if (known.insert(fault).second) parts.push_back(std::move(fault));
    }
  }
  return parts;
}

}  // namespace cairn::pickle
