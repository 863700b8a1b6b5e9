// SPDX-License-Identifier: BSD-3-Clause
#include "formats/dcp/storage_rows.hpp"

#include <algorithm>
#include <bit>

#include "base/fail.hpp"
#include "base/keyed_hash.hpp"
#include "base/text.hpp"

namespace cairn::dcp {
namespace {

using pickle::Kind;

// Keyed, so that no file can be made whose keys all meet in one slot.
std::uint64_t hash_key(std::string_view name, std::span<const std::int64_t> offsets) {
  return keyed_hash(std::as_bytes(offsets), KeyedHash{}(name));
}

std::uint64_t unsigned_field(const Arena& arena, Value info, std::string_view name, std::string_view where,
                             std::string_view item) {
  const auto value = field(arena, info, name);
  if (!value || value->kind() != Kind::integer || arena.as_integer(*value) < 0) {
    fail_corrupt("{}: the {} of item '{}' is {}, an int of at least 0 expected", where, name,
                 escape_name(item), value ? describe(arena, *value) : "missing");
  }
  return static_cast<std::uint64_t>(arena.as_integer(*value));
}

void check_transforms(const Arena& arena, Value info, std::string_view where, std::string_view item) {
  const auto transforms = field(arena, info, "transform_descriptors");
  if (!transforms || transforms->kind() == Kind::none) return;
  std::string text;
  if (transforms->kind() == Kind::list || transforms->kind() == Kind::tuple) {
    const auto items = arena.items(*transforms);
    if (items.empty()) return;
    for (const Value one : items) {
      text += text.empty() ? "" : ", ";
      text += one.kind() == Kind::string ? escape_name(arena.text(one)) : describe(arena, one);
    }
  } else {
    text = describe(arena, *transforms);
  }
  fail(ErrorKind::unsupported, "{}: item '{}' is stored with a transform ({}); Cairn reads plain items only",
       where, escape_name(item), text);
}

}  // namespace

bool is_plain_relative_path(std::string_view path) {
  if (path.empty() || path.find('\0') != std::string_view::npos) return false;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const auto component = path.substr(begin, end - begin);
    if (component.empty() || component == "." || component == "..") return false;
    begin = end + 1;
  }
  return true;
}

void StorageRows::read(const Arena& arena, std::optional<Value> storage_data, std::string_view where) {
  if (!storage_data || storage_data->kind() != Kind::dict) {
    fail_corrupt("{}: storage_data is {}, a dict expected", where,
                 storage_data ? describe(arena, *storage_data) : "missing");
  }
  const auto items = arena.items(*storage_data);
  rows_.reserve(items.size() / 2);
  for (std::size_t i = 0; i < items.size(); i += 2) add(arena, items[i], items[i + 1], where);
  build_table();
}

void StorageRows::add(const Arena& arena, Value key, Value info, std::string_view where) {
  const auto name = field(arena, key, "fqn");
  if (!name || name->kind() != Kind::string) {
    fail_corrupt("{}: a key of storage_data is {}, MetadataIndex expected", where, describe(arena, key));
  }
  StorageRow row{arena.text(*name), offsets_.size(), 0, 0, 0, 0};
  if (const auto offset = field(arena, key, "offset"); offset && offset->kind() != Kind::none) {
    std::vector<std::int64_t> values;
    if (!read_size(arena, *offset, values)) {
      fail_corrupt("{}: the offset of item '{}' is {}, torch.Size expected", where, escape_name(row.name),
                   describe(arena, *offset));
    }
    row.ndim = static_cast<std::uint32_t>(values.size());
    offsets_.insert(offsets_.end(), values.begin(), values.end());
    if (offsets_.size() > arena.memory_bytes())
      fail_corrupt("{}: the offsets of its items have no end", where);
  }
  const auto path = field(arena, info, "relative_path");
  if (!path || path->kind() != Kind::string) {
    fail_corrupt("{}: the place of item '{}' is {}, _StorageInfo with a relative_path expected", where,
                 escape_name(row.name), describe(arena, info));
  }
  check_transforms(arena, info, where, row.name);
  row.file = file_index(arena.text(*path), where);
  row.byte_offset = unsigned_field(arena, info, "offset", where, row.name);
  row.byte_length = unsigned_field(arena, info, "length", where, row.name);
  rows_.push_back(row);
}

std::uint32_t StorageRows::file_index(std::string_view path, std::string_view where) {
  if (!rows_.empty() && files_[rows_.back().file] == path) return rows_.back().file;
  const auto [at, inserted] =
      file_indices_.try_emplace(std::string(path), static_cast<std::uint32_t>(files_.size()));
  if (inserted) {
    if (!is_plain_relative_path(path)) {
      fail_corrupt("{}: unsafe shard file name '{}': a relative path without '..' expected", where,
                   escape_name(path));
    }
    files_.emplace_back(path);
  }
  return at->second;
}

void StorageRows::build_table() {
  table_.assign(std::bit_ceil(rows_.size() * 2 + 1), 0);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const std::span<const std::int64_t> offsets(offsets_.data() + rows_[i].offsets_at, rows_[i].ndim);
    // of equal keys the last wins, as in a Python dict
    table_[slot(rows_[i].name, offsets)] = static_cast<std::uint32_t>(i + 1);
  }
}

std::size_t StorageRows::slot(std::string_view name, std::span<const std::int64_t> offsets) const {
  const std::size_t mask = table_.size() - 1;
  std::size_t at = hash_key(name, offsets) & mask;
  for (; table_[at] != 0; at = (at + 1) & mask) {
    const StorageRow& row = rows_[table_[at] - 1];
    const std::span<const std::int64_t> stored(offsets_.data() + row.offsets_at, row.ndim);
    if (row.name == name && std::ranges::equal(stored, offsets)) break;
  }
  return at;
}

const StorageRow* StorageRows::find(std::string_view name, std::span<const std::int64_t> offsets) const {
  const std::uint32_t found = table_[slot(name, offsets)];
  return found == 0 ? nullptr : &rows_[found - 1];
}

}  // namespace cairn::dcp
