// SPDX-License-Identifier: BSD-3-Clause
// One item of a `.distcp` file: a torch.save archive of one tensor or one object, between two byte offsets
// (docs/format-dcp.md). Local.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cairn/tensor.hpp"
#include "formats/torch_file/archive.hpp"
#include "formats/torch_file/tensor_value.hpp"
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

/// The heads of items that are in memory. Chunks of one dtype and shape have the same pickle, byte for byte:
/// each of those met lately is decoded once. One object per thread.
class ItemHeads {
 public:
  /// As read_item_head. The head is valid until the next call.
  const ItemHead& read(std::span<const std::byte> item, std::string_view where);

 private:
  struct Decoded {
    torch_file::StoredTensor tensor;  ///< its key lives in
    std::unique_ptr<pickle::Arena> arena;
  };
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  const torch_file::StoredTensor& decode(std::span<const std::byte> pickle, std::string_view where);

  std::unordered_map<std::string, Decoded, TextHash, std::equal_to<>> decoded_;  // by the pickle's bytes
  std::size_t decoded_bytes_ = 0;
  ItemHead head_;
};

/// A storage inside an object's item.
struct ObjectStorage {
  std::uint64_t byte_offset, bytes;  ///< relative to the item
  std::uint32_t crc;                 ///< 0: not computed
};

/// An object's item, opened once for its pickle and its storages. Errors name `where`.
class ObjectItem {
 public:
  ObjectItem(zip::ReadAt read_at, std::uint64_t item_bytes, std::string where);
  ObjectItem(const ObjectItem&) = delete;  // the archive reads through the member
  ObjectItem& operator=(const ObjectItem&) = delete;

  /// The value, read into `arena`. An item that is no zip archive becomes a bytes value (custom planners
  /// store raw bytes). The persistent nodes under the value still carry the item's own storage ids.
  pickle::Value read(pickle::Arena& arena) const;

  /// The storage that a persistent id of this object names.
  ObjectStorage storage(const pickle::Arena& arena, pickle::Value id) const;

 private:
  zip::ReadAt read_at_;
  std::uint64_t item_bytes_;
  std::string where_;
  std::optional<torch_file::Archive> archive_;
};

}  // namespace cairn::dcp
