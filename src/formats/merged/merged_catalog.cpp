// SPDX-License-Identifier: BSD-3-Clause
#include "formats/merged/merged_catalog.hpp"

#include <algorithm>

namespace cairn {

std::uint32_t MergedCatalog::add_part(const Catalog& part, std::string_view prefix) {
  parts_.push_back(&part);
  made_.first_files.push_back(static_cast<std::uint32_t>(made_.catalog.files().size()));
  made_.strings.emplace_back(part.string_count(), kNoString);
  for (const std::string& file : part.files()) made_.catalog.add_file(std::string(prefix) + file);
  return static_cast<std::uint32_t>(parts_.size() - 1);
}

std::string_view MergedCatalog::first_key(const Catalog& part, const Entry& entry) {
  const auto path = part.path(entry);
  return path.empty() ? part.name(entry) : part.text(static_cast<StringId>(path[0].value));
}

PathStep MergedCatalog::key(std::string_view text) {
  const auto is_it = [&](const auto& known) { return known.first == text; };
  auto known = std::ranges::find_if(keys_, is_it);
  if (known == keys_.end()) known = keys_.insert(known, {std::string(text), made_.catalog.add_string(text)});
  return {static_cast<std::int64_t>(known->second), false};
}

StringId MergedCatalog::string(std::uint32_t part, StringId id) {
  StringId& known = made_.strings[part][id];
  if (known == kNoString) known = made_.catalog.add_string(parts_[part]->text(id));
  return known;
}

PathStep MergedCatalog::step(std::uint32_t part, PathStep stored) {
  if (stored.is_position) return stored;
  return {static_cast<std::int64_t>(string(part, static_cast<StringId>(stored.value))), false};
}

StringId MergedCatalog::name_of(std::uint32_t part, const Entry& entry) const {
  const Catalog& from = *parts_[part];
  return entry.is_tensor ? from.tensors()[entry.index].name : from.objects()[entry.index].name;
}

void MergedCatalog::add(std::uint32_t part, const Entry& entry) {
  path_.clear();
  for (const PathStep stored : parts_[part]->path(entry)) path_.push_back(step(part, stored));
  append(part, entry, string(part, name_of(part, entry)));
}

void MergedCatalog::add(std::uint32_t part, const Entry& entry, std::span<const PathStep> front) {
  add_replacing(part, entry, front, 1);
}

void MergedCatalog::add_under(std::uint32_t part, const Entry& entry, std::span<const PathStep> front) {
  add_replacing(part, entry, front, 0);
}

void MergedCatalog::add_replacing(std::uint32_t part, const Entry& entry, std::span<const PathStep> front,
                                  std::size_t replaced) {
  path_.assign(front.begin(), front.end());
  const auto stored = parts_[part]->path(entry);
  for (const PathStep kept : stored.subspan(std::min(replaced, stored.size())))
    path_.push_back(step(part, kept));
  if (stored.empty() && replaced == 0)
    path_.push_back({static_cast<std::int64_t>(string(part, name_of(part, entry))), false});
  std::string name;
  for (const PathStep one : path_) {
    if (!name.empty()) name += '.';
    name += one.is_position ? std::to_string(one.value)
                            : std::string(made_.catalog.text(static_cast<StringId>(one.value)));
  }
  append(part, entry, made_.catalog.add_string(name));
}

void MergedCatalog::append(std::uint32_t part, const Entry& entry, StringId name) {
  const Catalog& from = *parts_[part];
  const auto file_of = [&](const StoredItem& item) {
    return item.file == kNoFile ? kNoFile : made_.first_files[part] + item.file;
  };
  if (entry.is_tensor) {
    const TensorInfo& tensor = from.tensors()[entry.index];
    made_.catalog.add_tensor(name, tensor.dtype, from.shape(tensor));
    for (const StoredItem& chunk : from.chunks(tensor))
      made_.catalog.add_chunk(from.box(tensor, chunk), file_of(chunk), chunk.byte_offset, chunk.byte_length,
                              chunk.transform);
    made_.tensors.push_back({part, entry.index});
  } else {
    const StoredItem& item = from.objects()[entry.index].item;
    made_.catalog.add_object(name, file_of(item), item.byte_offset, item.byte_length, item.transform);
    made_.objects.push_back({part, entry.index});
  }
  if (!path_.empty()) made_.catalog.set_path(path_);
}

}  // namespace cairn
