// SPDX-License-Identifier: BSD-3-Clause
// One item of a `.distcp` file: a torch.save archive of one tensor or one object, between two byte offsets
// (docs/format-dcp.md). Local.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "cairn/tensor.hpp"
#include "pickle/value.hpp"
#include "zip/directory.hpp"

namespace cairn::dcp {

/// Where the elements of a stored chunk lie, relative to the item's first byte.
struct ItemHead {
  DType dtype;
  std::vector<std::int64_t> shape, strides;  ///< in elements
  std::uint64_t storage_at;                  ///< byte offset of the storage
  std::uint64_t storage_bytes;
  std::uint64_t first_byte;   ///< byte offset of element [0, …, 0]
  std::uint32_t storage_crc;  ///< of the whole storage; 0: not computed
};

/// Reads an item's directory and pickle, not its payload. `where` names tensor, file and offset in messages.
/// Throws corrupt, or unsupported for tensors that are no plain view (see torch_file/tensor_value.hpp) and
/// for safetensors items.
ItemHead read_item_head(const zip::ReadAt& read_at, std::uint64_t item_bytes, std::string_view where);

/// A storage inside an object's item.
struct ObjectStorage {
  std::string_view key;  ///< lives in the arena
  std::uint64_t byte_offset, bytes;
  std::uint32_t crc;
};

/// Reads an object's item into `arena`. Items that are no zip archive become a bytes value (custom planners
/// store raw bytes). The persistent nodes under the value still carry the item's own storage ids.
pickle::Value read_object_item(pickle::Arena& arena, const zip::ReadAt& read_at, std::uint64_t item_bytes,
                               std::string_view where);

/// The storage that a persistent id of that object names.
ObjectStorage find_object_storage(const pickle::Arena& arena, pickle::Value id, const zip::ReadAt& read_at,
                                  std::uint64_t item_bytes, std::string_view where);

}  // namespace cairn::dcp
