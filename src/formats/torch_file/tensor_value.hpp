// SPDX-License-Identifier: BSD-3-Clause
// Tensors in torch's pickles: REDUCE of the torch._utils._rebuild_* functions over a persistent storage id
// (docs/format-torch-file.md). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "cairn/tensor.hpp"
#include "pickle/value.hpp"

namespace cairn::torch_file {

/// A view of a storage. Shape, strides and storage_offset in elements; the storage is the archive's record
/// data/<storage_key>.
struct StoredTensor {
  DType dtype;
  std::string_view storage_key;  ///< lives in the arena
  std::uint64_t storage_bytes;
  std::int64_t storage_offset;
  std::vector<std::int64_t> shape, strides;
};

/// What a persistent id ('storage', class, key, location, numel) says.
struct StorageId {
  std::string_view key;  ///< lives in the arena
  std::uint64_t bytes;
  std::optional<DType> dtype;  ///< nullopt for an UntypedStorage: the tensor says
};

/// Throws corrupt for a malformed id, unsupported for a storage class that Cairn does not know. `id` is the
/// value under a persistent node.
StorageId decode_storage_id(const pickle::Arena& arena, pickle::Value id);

/// Whether a value is rebuilt as a tensor, of whatever kind.
bool is_tensor(const pickle::Arena& arena, pickle::Value value);

/// nullopt when `value` is no tensor at all. Throws unsupported for tensors that are no plain view of a dense
/// storage (quantised, sparse, meta, subclasses, conjugate and negative views), corrupt for malformed ones
/// and for views that leave their storage.
std::optional<StoredTensor> decode_tensor(const pickle::Arena& arena, pickle::Value value);

}  // namespace cairn::torch_file
