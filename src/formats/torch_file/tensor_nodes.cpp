// SPDX-License-Identifier: BSD-3-Clause
#include "formats/torch_file/tensor_nodes.hpp"

#include <array>
#include <string_view>

#include "cairn/box.hpp"

namespace cairn::torch_file {

using pickle::Value;

TensorNodes::TensorNodes(pickle::Arena& arena)
    : arena_(arena),
      ordered_dict_(arena.global("collections", "OrderedDict")),
      rebuild_v2_(arena.global("torch._utils", "_rebuild_tensor_v2")),
      rebuild_v3_(arena.global("torch._utils", "_rebuild_tensor_v3")) {}

Value TensorNodes::tensor(DType dtype, std::span<const std::int64_t> shape, Value storage) {
  const bool legacy = !info(dtype).storage_class.empty();
  const Value hooks = arena_.object(pickle::Construct::reduce, ordered_dict_, arena_.tuple({}));
  const Value sizes = ints(shape), strides = ints(contiguous_strides(shape));
  std::array<Value, 7> args{storage, arena_.integer(0), sizes, strides, arena_.boolean(false), hooks, {}};
  if (!legacy) args[6] = arena_.global("torch", info(dtype).name);
  return arena_.object(pickle::Construct::reduce, legacy ? rebuild_v2_ : rebuild_v3_,
                       arena_.tuple(std::span(args).first(legacy ? 6 : 7)));
}

Value TensorNodes::storage_class(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  if (index >= storage_classes_.size()) storage_classes_.resize(index + 1);
  auto& known = storage_classes_[index];
  const std::string_view name = info(dtype).storage_class;
  if (!known) {
    known = name.empty() ? arena_.global("torch.storage", "UntypedStorage") : arena_.global("torch", name);
  }
  return *known;
}

Value TensorNodes::storage_count(DType dtype, std::uint64_t bytes) {
  const bool legacy = !info(dtype).storage_class.empty();
  return arena_.integer(static_cast<std::int64_t>(legacy ? bytes / element_size(dtype) : bytes));
}

Value TensorNodes::ints(std::span<const std::int64_t> numbers) {
  ints_.clear();
  for (const std::int64_t number : numbers) ints_.push_back(arena_.integer(number));
  return arena_.tuple(ints_);
}

}  // namespace cairn::torch_file
