// SPDX-License-Identifier: BSD-3-Clause
// The values that stand for tensors in torch's pickles (docs/format-torch-file.md). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cairn/tensor.hpp"
#include "pickle/value.hpp"

namespace cairn::torch_file {

/// Makes nodes in one arena, which it needs for as long as it lives.
class TensorNodes {
 public:
  explicit TensorNodes(pickle::Arena& arena);

  /// A contiguous tensor, the whole of the storage that the persistent node `storage` stands for.
  pickle::Value tensor(DType dtype, std::span<const std::int64_t> shape, pickle::Value storage);

  /// What the storage's id says: its class, and its length in elements, or in bytes where no class of torch
  /// is made for the dtype.
  pickle::Value storage_class(DType dtype);
  pickle::Value storage_count(DType dtype, std::uint64_t bytes);

 private:
  pickle::Value ints(std::span<const std::int64_t> numbers);

  pickle::Arena& arena_;
  const pickle::Value ordered_dict_, rebuild_v2_, rebuild_v3_;
  std::vector<std::optional<pickle::Value>> storage_classes_;  // by dtype
  std::vector<pickle::Value> ints_;
};

}  // namespace cairn::torch_file
