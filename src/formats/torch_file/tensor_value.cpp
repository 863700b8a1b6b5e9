// SPDX-License-Identifier: BSD-3-Clause
#include "formats/torch_file/tensor_value.hpp"

#include <algorithm>

#include "base/checked.hpp"
#include "base/text.hpp"
#include "cairn/box.hpp"

namespace cairn::torch_file {
namespace {

using pickle::Arena;
using pickle::Kind;
using pickle::Value;

using Args = std::span<const Value>;

Args args_of(const Arena& arena, Value object) {
  const Value args = arena.object_view(object).args;
  return args.kind() == Kind::tuple ? arena.items(args) : Args{};
}

std::int64_t read_int(const Arena& arena, Value value, std::string_view what) {
  if (value.kind() != Kind::integer || arena.as_integer(value) < 0) {
    fail_corrupt("tensor pickle: {} is no int of at least 0", what);
  }
  return arena.as_integer(value);
}

std::vector<std::int64_t> read_ints(const Arena& arena, Value value, std::string_view what) {
  if (value.kind() == Kind::object && arena.is_global(arena.object_view(value).callable, "torch", "Size")) {
    const Args args = args_of(arena, value);
    if (args.empty()) return {};
    value = args[0];
  }
  if (value.kind() != Kind::tuple && value.kind() != Kind::list)
    fail_corrupt("tensor pickle: {} is no tuple", what);
  std::vector<std::int64_t> out;
  for (const Value item : arena.items(value)) out.push_back(read_int(arena, item, what));
  return out;
}

// A tensor with the conjugate or negative bit set stores other values than it shows.
void check_view_flags(const Arena& arena, Args args, std::size_t at) {
  if (args.size() <= at || args[at].kind() == Kind::none) return;
  if (args[at].kind() != Kind::dict) {
    fail(ErrorKind::unsupported, "the tensor's flags are {}, a dict expected", to_string(args[at].kind()));
  }
  const Args items = arena.items(args[at]);
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i + 1].kind() == Kind::boolean && !arena.as_boolean(items[i + 1])) continue;
    fail(ErrorKind::unsupported,
         "the tensor is a view with '{}' set; save it resolved (tensor.resolve_conj())",
         items[i].kind() == Kind::string ? escape_name(arena.text(items[i])) : "a flag");
  }
}

void check_bounds(const StoredTensor& tensor, std::uint64_t element_bytes) {
  if (tensor.shape.size() != tensor.strides.size()) {
    fail_corrupt("tensor pickle: shape {} and strides {} differ in length", to_string(tensor.shape),
                 to_string(tensor.strides));
  }
  const std::int64_t elements = element_count(tensor.shape);
  checked_mul(elements, static_cast<std::int64_t>(element_bytes), "tensor size");
  static_cast<void>(contiguous_strides(tensor.shape));  // nor do these overflow
  if (elements == 0) return;
  std::int64_t last = tensor.storage_offset;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    last = checked_add(last, checked_mul(tensor.shape[d] - 1, tensor.strides[d], "tensor extent"),
                       "tensor extent");
  }
  const std::uint64_t held = tensor.storage_bytes / element_bytes;
  if (static_cast<std::uint64_t>(last) >= held) {
    fail_corrupt("tensor pickle: shape {}, strides {}, offset {} reach element {} of a storage of {}",
                 to_string(tensor.shape), to_string(tensor.strides), tensor.storage_offset, last, held);
  }
}

StoredTensor decode_view(const Arena& arena, Args args, std::optional<DType> dtype) {
  if (args.size() < 4 || args[0].kind() != Kind::persistent) {
    fail_corrupt("tensor pickle: a storage, its offset, size and stride expected");
  }
  const StorageId storage = decode_storage_id(arena, arena.persistent_id(args[0]));
  if (!dtype) dtype = storage.dtype;
  if (!dtype) fail_corrupt("tensor pickle: no dtype for an untyped storage");
  StoredTensor tensor{*dtype,
                      storage.key,
                      storage.bytes,
                      read_int(arena, args[1], "storage offset"),
                      read_ints(arena, args[2], "size"),
                      read_ints(arena, args[3], "stride")};
  check_bounds(tensor, element_size(*dtype));
  return tensor;
}

DType read_dtype(const Arena& arena, Value value) {
  if (value.kind() == Kind::global) {
    const auto name = arena.global_name(value);
    if (const auto dtype = name.module == "torch" ? dtype_from_name(name.name) : std::nullopt) return *dtype;
    fail(ErrorKind::unsupported, "the tensor's dtype is {}.{}, which Cairn does not read", name.module,
         name.name);
  }
  fail_corrupt("tensor pickle: no dtype where one is expected");
}

std::optional<StoredTensor> decode_nested(const Arena& arena, Value value, int depth);

// _rebuild_from_type_v2(function, type, args, state): a plain tensor or Parameter with Python attributes.
std::optional<StoredTensor> decode_typed(const Arena& arena, Args args, int depth) {
  if (args.size() < 3 || args[0].kind() != Kind::global || args[2].kind() != Kind::tuple) {
    fail_corrupt("tensor pickle: _rebuild_from_type_v2 without function, type and arguments");
  }
  const auto function = arena.global_name(args[0]);
  const Args inner = arena.items(args[2]);
  if (function.name == "_rebuild_tensor_v2") {
    check_view_flags(arena, inner, 6);
    return decode_view(arena, inner, {});
  }
  if (function.name == "_rebuild_parameter" && !inner.empty())
    return decode_nested(arena, inner[0], depth + 1);
  fail(ErrorKind::unsupported, "the tensor is rebuilt by {}.{}, which Cairn does not read", function.module,
       function.name);
}

// The function of torch that makes a tensor of arguments; nullopt for other values.
std::optional<Arena::GlobalName> rebuilt_by(const Arena& arena, Value value) {
  if (value.kind() != Kind::object) return std::nullopt;
  const Value callable = arena.object_view(value).callable;
  if (callable.kind() != Kind::global) return std::nullopt;
  const auto function = arena.global_name(callable);
  if (function.module != "torch._utils" && function.module != "torch._tensor") return std::nullopt;
  if (!function.name.starts_with("_rebuild_")) return std::nullopt;
  return function;
}

std::optional<StoredTensor> decode_nested(const Arena& arena, Value value, int depth) {
  const auto rebuilt = depth > 8 ? std::nullopt : rebuilt_by(arena, value);
  if (!rebuilt) return std::nullopt;
  const auto& function = *rebuilt;
  const Args args = args_of(arena, value);
  if (function.name == "_rebuild_tensor") return decode_view(arena, args, {});
  if (function.name == "_rebuild_tensor_v2") {
    check_view_flags(arena, args, 6);
    return decode_view(arena, args, {});
  }
  if (function.name == "_rebuild_tensor_v3") {
    if (args.size() < 7)
      fail_corrupt("tensor pickle: _rebuild_tensor_v3 with {} arguments, 7 expected", args.size());
    check_view_flags(arena, args, 7);
    return decode_view(arena, args, read_dtype(arena, args[6]));
  }
  if (function.name == "_rebuild_parameter" || function.name == "_rebuild_parameter_with_state") {
    return args.empty() ? std::nullopt : decode_nested(arena, args[0], depth + 1);
  }
  if (function.name == "_rebuild_from_type_v2") return decode_typed(arena, args, depth);
  fail(ErrorKind::unsupported, "the tensor is rebuilt by {}.{}, which Cairn does not read", function.module,
       function.name);
}

}  // namespace

bool is_tensor(const Arena& arena, Value value) { return rebuilt_by(arena, value).has_value(); }

StorageId decode_storage_id(const Arena& arena, Value id) {
  const Args parts = id.kind() == Kind::tuple ? arena.items(id) : Args{};
  const bool well_formed = parts.size() >= 5 && parts[0].kind() == Kind::string &&
                           arena.text(parts[0]) == "storage" && parts[1].kind() == Kind::global &&
                           parts[2].kind() == Kind::string;
  if (!well_formed)
    fail_corrupt("tensor pickle: a storage id ('storage', class, key, location, size) expected");
  const auto count = static_cast<std::uint64_t>(read_int(arena, parts[4], "storage size"));
  const auto storage_class = arena.global_name(parts[1]);
  if (storage_class.name == "UntypedStorage") return {arena.text(parts[2]), count, std::nullopt};
  const auto dtype = dtype_from_storage_class(storage_class.name);
  if (!dtype || !storage_class.module.starts_with("torch")) {
    fail(ErrorKind::unsupported, "the storage class {}.{} is none that Cairn reads", storage_class.module,
         storage_class.name);
  }
  return {arena.text(parts[2]), checked_mul(count, element_size(*dtype), "storage size"), dtype};
}

std::optional<StoredTensor> decode_tensor(const Arena& arena, Value value) {
  return decode_nested(arena, value, 0);
}

}  // namespace cairn::torch_file
