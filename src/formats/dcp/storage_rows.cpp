// SPDX-License-Identifier: BSD-3-Clause
#include "formats/dcp/storage_rows.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/fail.hpp"
#include "base/keyed_hash.hpp"
#include "base/pool.hpp"
#include "base/text.hpp"
#include "formats/dcp/fields.hpp"
#include "formats/dcp/zstd_stream.hpp"

namespace cairn::dcp {
namespace {

using pickle::Kind;

std::uint64_t unsigned_field(const MetadataStore& store, Value value, std::string_view field,
                             std::string_view where, Value name) {
  if (value == kAbsent || value.kind() != Kind::integer || store.as_integer(value) < 0) {
    fail_corrupt("{}: the {} of item '{}' is {}, an int of at least 0 expected", where, field,
                 escape_name(store.text(name)), value == kAbsent ? "missing" : describe(store, value));
  }
  return static_cast<std::uint64_t>(store.as_integer(value));
}

// "name/version"; torch's own reader looks at the version's first number only.
bool is_zstd(std::string_view descriptor) {
  constexpr std::string_view known = "stream.zstd/1";
  return descriptor == known || descriptor.starts_with(std::string(known) + ".");
}

Transform read_transform(const MetadataStore& store, Value transforms, std::string_view where, Value name) {
  if (transforms == kAbsent || transforms.kind() == Kind::none) return Transform::none;
  std::string text;
  if (transforms.kind() == Kind::list || transforms.kind() == Kind::tuple) {
    const auto items = store.items(transforms);
    if (items.empty()) return Transform::none;
    const bool is_known =
        items.size() == 1 && items[0].kind() == Kind::string && is_zstd(store.text(items[0]));
    if (is_known && has_zstd()) return Transform::zstd;
    for (const Value one : items) {
      text += text.empty() ? "" : ", ";
      text += one.kind() == Kind::string ? escape_name(store.text(one)) : describe(store, one);
    }
    if (is_known) text += "; this cairn was built without zstd";
  } else {
    text = describe(store, transforms);
  }
  fail(ErrorKind::unsupported, "{}: item '{}' is stored with a transform ({}); Cairn reads {} items only",
       where, escape_name(store.text(name)), text, has_zstd() ? "plain and zstd" : "plain");
}

bool is_list_of_ints(const MetadataStore& store, Value value, CopyBudget& budget) {
  if (value.kind() != Kind::tuple && value.kind() != Kind::list) return false;
  budget.charge(store.items(value).size());
  return std::ranges::all_of(store.items(value), [](Value item) { return item.kind() == Kind::integer; });
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

void StorageRows::read(const MetadataStore& store, std::optional<Value> storage_data, NameTable& names,
                       CopyBudget& budget, std::string_view where) {
  if (!storage_data || storage_data->kind() != Kind::dict) {
    fail_corrupt("{}: storage_data is {}, a dict expected", where,
                 storage_data ? describe(store, *storage_data) : "missing");
  }
  const auto items = store.items(*storage_data);
  rows_.reserve(items.size() / 2);
  expect_large(rows_.data(), rows_.capacity() * sizeof(StorageRow));
  for (std::size_t i = 0; i < items.size(); i += 2) add(store, items[i], items[i + 1], names, budget, where);
  group(names.count());
}

void StorageRows::add(const MetadataStore& store, Value key, Value info, NameTable& names, CopyBudget& budget,
                      std::string_view where) {
  const auto index = store.row(RowClass::index, key);
  if (index.empty() || index[kIndexFqn].kind() != Kind::string) {
    fail_corrupt("{}: a key of storage_data is {}, MetadataIndex with a name expected", where,
                 describe(store, key));
  }
  const Value name = index[kIndexFqn];
  const Value offset = index[kIndexOffset] == kAbsent ? store.none() : index[kIndexOffset];
  if (offset.kind() != Kind::none && !is_list_of_ints(store, offset, budget)) {
    fail_corrupt("{}: the offset of item '{}' is {}, torch.Size expected", where,
                 escape_name(store.text(name)), describe(store, offset));
  }
  const auto place = store.row(RowClass::place, info);
  if (place.empty() || place[kPlacePath].kind() != Kind::string) {
    fail_corrupt("{}: the place of item '{}' is {}, _StorageInfo with a relative_path expected", where,
                 escape_name(store.text(name)), describe(store, info));
  }
  rows_.push_back({names.number(name), file_number(store, place[kPlacePath], where),
                   read_transform(store, place[kPlaceTransforms], where, name),
                   unsigned_field(store, place[kPlaceOffset], "offset", where, name),
                   unsigned_field(store, place[kPlaceLength], "length", where, name), offset});
}

std::uint32_t StorageRows::file_number(const MetadataStore& store, Value path, std::string_view where) {
  if (path == last_path_) return rows_.back().file;
  last_path_ = path;
  const std::string_view text = store.text(path);
  const auto [at, inserted] = file_numbers_.try_emplace(text, static_cast<std::uint32_t>(files_.size()));
  if (inserted) {
    if (!is_plain_relative_path(text)) {
      fail_corrupt("{}: unsafe shard file name '{}': a relative path without '..' expected", where,
                   escape_name(text));
    }
    files_.emplace_back(text);
  }
  return at->second;
}

// A counting sort by name, unless the file has them grouped.
void StorageRows::group(std::uint32_t name_count) {
  std::vector<std::uint64_t> begins(name_count + 1, 0);
  for (const StorageRow& row : rows_) ++begins[row.name + 1];
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  ends_.assign(begins.begin() + 1, begins.end());
  if (std::ranges::is_sorted(rows_, {}, &StorageRow::name)) return;
  std::vector<StorageRow> grouped(rows_.size());
  for (const StorageRow& row : rows_) grouped[begins[row.name]++] = row;
  rows_ = std::move(grouped);
}

std::span<const StorageRow> StorageRows::of(std::uint32_t name) const {
  if (name >= ends_.size()) return {};
  const std::uint64_t begin = name == 0 ? 0 : ends_[name - 1];
  return std::span(rows_).subspan(begin, ends_[name] - begin);
}

RowFinder::RowFinder(const MetadataStore& store, std::span<const StorageRow> rows, std::size_t chunk_count)
    : store_(store), rows_(rows), in_order_(rows.size() == chunk_count) {}

const StorageRow* RowFinder::find(std::size_t position, std::span<const std::int64_t> offsets) {
  if (rows_.empty()) return nullptr;
  // equal numbers of both: were two rows equal, some other chunk would have none, and that is a fault
  if (in_order_ && starts_at(rows_[position], offsets)) return &rows_[position];
  if (table_.empty()) build_table(offsets.size());
  in_order_ = false;
  const std::uint32_t found = table_[slot(offsets)];
  return found == 0 ? nullptr : &rows_[found - 1];
}

bool RowFinder::starts_at(const StorageRow& row, std::span<const std::int64_t> offsets) const {
  const auto values = row.offset.kind() == Kind::none ? std::span<const Value>{} : store_.items(row.offset);
  return std::ranges::equal(values, offsets, {}, [&](Value value) { return store_.as_integer(value); });
}

void RowFinder::build_table(std::size_t ndim) {
  table_.assign(std::bit_ceil(rows_.size() * 2 + 1), 0);
  std::vector<std::int64_t> offsets;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    offsets.clear();
    if (rows_[i].offset.kind() != Kind::none) {
      if (store_.items(rows_[i].offset).size() != ndim) continue;
      for (const Value value : store_.items(rows_[i].offset)) offsets.push_back(store_.as_integer(value));
    }
    if (offsets.size() == ndim) table_[slot(offsets)] = static_cast<std::uint32_t>(i + 1);
  }
}

// Keyed, so that no file can be made whose offsets all meet in one slot.
std::size_t RowFinder::slot(std::span<const std::int64_t> offsets) const {
  const std::size_t mask = table_.size() - 1;
  std::size_t at = keyed_hash(std::as_bytes(offsets)) & mask;
  while (table_[at] != 0 && !starts_at(rows_[table_[at] - 1], offsets)) at = (at + 1) & mask;
  return at;
}

}  // namespace cairn::dcp
