// SPDX-License-Identifier: BSD-3-Clause
// The storage_data of a `.metadata`: where each item lies, found by name and chunk offsets.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/keyed_hash.hpp"
#include "formats/dcp/fields.hpp"

namespace cairn::dcp {

struct StorageRow {
  std::string_view name;  // lives in the arena
  std::uint64_t offsets_at;
  std::uint32_t ndim;
  std::uint32_t file;
  std::uint64_t byte_offset, byte_length;
};

class StorageRows {
 public:
  /// Reads the dict MetadataIndex -> _StorageInfo. The arena must outlive this object and not grow. Throws
  /// corrupt for malformed entries and unsafe file names, unsupported for transformed items.
  void read(const Arena& arena, std::optional<Value> storage_data, std::string_view where);

  /// The row of this name whose chunk starts at `offsets` (an object has none); nullptr when absent.
  const StorageRow* find(std::string_view name, std::span<const std::int64_t> offsets) const;

  /// Relative paths, plain components only; rows index into it.
  const std::vector<std::string>& files() const { return files_; }

 private:
  void add(const Arena& arena, Value key, Value info, std::string_view where);
  std::uint32_t file_index(std::string_view path, std::string_view where);
  void build_table();
  std::size_t slot(std::string_view name, std::span<const std::int64_t> offsets) const;

  std::vector<StorageRow> rows_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::uint32_t> table_;  // open addressing: row + 1, 0 for free
  std::vector<std::string> files_;
  std::unordered_map<std::string, std::uint32_t, KeyedHash> file_indices_;
};

/// Whether a path from a checkpoint is relative and made of plain names: no '..', no '.', no empty component,
/// no NUL.
bool is_plain_relative_path(std::string_view path);

}  // namespace cairn::dcp
