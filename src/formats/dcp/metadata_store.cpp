// SPDX-License-Identifier: BSD-3-Clause
#include "formats/dcp/metadata_store.hpp"

#include <algorithm>
#include <utility>

#include "base/fail.hpp"

namespace cairn::dcp {
namespace {

using pickle::Construct;
using pickle::Kind;

constexpr std::size_t kMaxFields = 64;   // one dict may be the state of very many instances
constexpr std::size_t kMaxClasses = 16;  // real files have four
constexpr std::size_t kMaxRecycled = 8;  // real files recycle one dict over and over
constexpr std::array<std::string_view, 4> kClassNames{"ChunkStorageMetadata", "MetadataIndex", "_StorageInfo",
                                                      "TensorStorageMetadata"};

}  // namespace

std::string_view class_name(RowClass type) { return kClassNames[static_cast<std::size_t>(type)]; }

Value MetadataStore::global(std::string_view module, std::string_view name) {
  const Value made = Arena::global(module, name);
  const auto at = std::ranges::find(kClassNames, name);
  if (at == kClassNames.end() || !module.starts_with("torch.distributed.")) return made;
  const bool known = std::ranges::any_of(classes_, [&](const Class& one) { return one.global == made; });
  if (!known && classes_.size() < kMaxClasses)
    classes_.push_back({made, static_cast<RowClass>(at - kClassNames.begin())});
  return made;
}

Value MetadataStore::object(Construct how, Value callable, Value args, Value kwargs) {
  for (const auto& [global, type] : classes_) {
    if (global != callable) continue;
    auto& rows = rows_[number(type)];
    const std::size_t first = rows.extend(kWidths[number(type)]);
    for (std::size_t i = first; i < rows.size(); ++i) rows[i] = kAbsent;
    row_is_new_ = true;
    return pickle::handle(Kind::row, first << 2 | number(type));
  }
  return Arena::object(how, callable, args, kwargs);
}

bool MetadataStore::is_field(Field& field, Value key) const {
  if (field.last_key == key) return true;
  if (key.kind() != Kind::string || field.name.empty() || text(key) != field.name) return false;
  field.last_key = key;
  return true;
}

void MetadataStore::set_state(Value object, Value state) {
  if (object.kind() != Kind::row) return Arena::set_state(object, state);
  if (state.kind() != Kind::dict) return;
  const auto pairs = items(state);
  if (pairs.size() > 2 * kMaxFields) return;
  const std::size_t type = number(row_class(object));
  for (std::size_t i = 0; i < pairs.size(); i += 2) {
    for (std::size_t f = 0; f < kWidths[type]; ++f) {
      if (!is_field(fields_[type][f], pairs[i])) continue;
      rows_[type][(pickle::index_of(object) >> 2) + f] = pairs[i + 1];
      break;
    }
  }
  recycle(state);
}

// A dict that was never fetched from the memo is known to its instance alone, and to its memo entry: fetching
// that later is noticed.
void MetadataStore::recycle(Value dict) {
  if (dicts_are_shared_) return;
  if (std::ranges::find(recycled_dicts_, dict) == recycled_dicts_.end()) {
    if (recycled_dicts_.size() == kMaxRecycled) return;
    recycled_dicts_.push_back(dict);
  }
  clear(dict);
  free_dicts_.push_back(dict);
}

Value MetadataStore::dict() {
  // an instance's dict comes right after it
  if (!std::exchange(row_is_new_, false) || free_dicts_.empty()) return Arena::dict();
  const Value reused = free_dicts_.back();
  free_dicts_.pop_back();
  return reused;
}

void MetadataStore::dict_fetched(Value dict) {
  if (std::ranges::find(recycled_dicts_, dict) != recycled_dicts_.end())
    fail(ErrorKind::unsupported, "a `.metadata` whose instances share a __dict__");
  dicts_are_shared_ = true;
}

std::size_t MetadataStore::memory_bytes() const {
  std::size_t bytes = Arena::memory_bytes();
  for (const auto& rows : rows_) bytes += rows.memory_bytes();
  return bytes;
}

}  // namespace cairn::dcp
