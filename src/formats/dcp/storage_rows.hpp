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
#include "cairn/metadata.hpp"
#include "formats/dcp/copy_budget.hpp"
#include "formats/dcp/metadata_store.hpp"
#include "formats/dcp/name_table.hpp"

namespace cairn::dcp {

struct StorageRow {
  std::uint32_t name;  ///< its number
  std::uint32_t file;
  Transform transform;
  std::uint64_t byte_offset, byte_length;
  Value offset;  ///< tuple or list of ints; None for an object
};

class StorageRows {
 public:
  /// Reads the dict MetadataIndex -> _StorageInfo. The store must outlive this object and not grow. Throws
  /// corrupt for malformed entries, unsafe file names and offsets beyond `budget`, unsupported for
  /// items with a transform other than zstd's (a list with the one descriptor "stream.zstd/1").
  void read(const MetadataStore& store, std::optional<Value> storage_data, NameTable& names,
            CopyBudget& budget, std::string_view where);

  /// The rows of a name, by its number, in the file's order.
  std::span<const StorageRow> of(std::uint32_t name) const;

  /// Relative paths, plain components only; rows index into it.
  const std::vector<std::string>& files() const { return files_; }

 private:
  void add(const MetadataStore& store, Value key, Value info, NameTable& names, CopyBudget& budget,
           std::string_view where);
  std::uint32_t file_number(const MetadataStore& store, Value path, std::string_view where);
  void group(std::uint32_t name_count);

  std::vector<StorageRow> rows_;
  std::unordered_map<std::string_view, std::uint32_t, KeyedHash> file_numbers_;  // the text is the store's
  std::vector<std::uint64_t> ends_;                                              // of the rows of each name
  std::vector<std::string> files_;
  Value last_path_ = kAbsent;
};

/// Finds the rows of one name's chunks. Where both are in the same order, as torch writes them, by position.
class RowFinder {
 public:
  RowFinder(const MetadataStore& store, std::span<const StorageRow> rows, std::size_t chunk_count);

  /// The row of chunk number `position`, which starts at `offsets`; nullptr if there is none. Of rows with
  /// equal offsets the last counts, as in a Python dict.
  const StorageRow* find(std::size_t position, std::span<const std::int64_t> offsets);

 private:
  bool starts_at(const StorageRow& row, std::span<const std::int64_t> offsets) const;
  void build_table(std::size_t ndim);
  std::size_t slot(std::span<const std::int64_t> offsets) const;

  const MetadataStore& store_;
  std::span<const StorageRow> rows_;
  bool in_order_;
  std::vector<std::uint32_t> table_;  // open addressing: row + 1, 0 for free
};

/// Whether a path from a checkpoint is relative and made of plain names: no '..', no '.', no empty component,
/// no NUL.
bool is_plain_relative_path(std::string_view path);

}  // namespace cairn::dcp
