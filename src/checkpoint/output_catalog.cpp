// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/output_catalog.hpp"

namespace cairn {
namespace {

StringId name_of(const Catalog& catalog, const Entry& entry) {
  return entry.is_tensor ? catalog.tensors()[entry.index].name : catalog.objects()[entry.index].name;
}

class OutputCatalogMaker {
 public:
  explicit OutputCatalogMaker(const Catalog& source) : source_(source) {
    for (StringId id = 0; id < source.string_count(); ++id) made_.catalog.add_string(source.text(id));
    for (const std::string& file : source.files()) made_.catalog.add_file(file);
  }

  void add(const Entry& entry, StringId name, DType dtype) {
    if (entry.is_tensor) {
      made_.catalog.add_tensor(name, dtype, source_.shape(source_.tensors()[entry.index]));
      made_.tensors.push_back(entry.index);
    } else {
      const StoredItem& item = source_.objects()[entry.index].item;
      made_.catalog.add_object(name, item.file, item.byte_offset, item.byte_length, item.transform);
      made_.objects.push_back(entry.index);
    }
  }

  void keep(const Entry& entry, DType dtype) {
    add(entry, name_of(source_, entry), dtype);
    if (entry.has_path) made_.catalog.set_path(source_.path(entry));
  }

  void rename(const Entry& entry, const KeptEntry& kept) {
    add(entry, made_.catalog.add_string(kept.name), kept.dtype);
    std::vector<PathStep> steps;
    for (const PathKey& key : kept.path) {
      if (key.recorded != PathKey::kNew && entry.has_path)
        steps.push_back(source_.path(entry)[key.recorded]);
      else if (key.is_position())
        steps.push_back({key.position, true});
      else
        steps.push_back({made_.catalog.add_string(key.key), false});
    }
    if (!steps.empty()) made_.catalog.set_path(steps);
  }

  OutputCatalog take() { return std::move(made_); }

 private:
  const Catalog& source_;
  OutputCatalog made_;
};

}  // namespace

NamedEntries::NamedEntries(const Catalog& catalog) {
  std::size_t steps = 0;
  for (const Entry& entry : catalog.entries()) steps += entry.path_length;
  keys_.reserve(steps);  // spans into it are taken
  for (const Entry& entry : catalog.entries()) {
    const std::size_t begin = keys_.size();
    if (entry.has_path) {
      for (const PathStep step : catalog.path(entry)) {
        keys_.push_back(step.is_position ? PathKey{{}, step.value}
                                         : PathKey{catalog.text(static_cast<StringId>(step.value))});
      }
    }
    const auto path = std::span<const PathKey>(keys_).subspan(begin);
    const DType dtype = entry.is_tensor ? catalog.tensors()[entry.index].dtype : DType::uint8;
    entries_.push_back({catalog.name(entry), path, dtype, entry.is_tensor});
  }
}

OutputCatalog apply_rules(const Catalog& source, const NamedEntries& entries, const NameRules& rules,
                          bool nested) {
  const NamePlan plan = plan_names(rules, entries.all(), nested);
  OutputCatalogMaker maker(source);
  for (const KeptEntry& kept : plan.kept()) {
    const Entry& entry = source.entries()[kept.entry];
    if (kept.is_renamed)
      maker.rename(entry, kept);
    else
      maker.keep(entry, kept.dtype);
  }
  auto made = maker.take();
  made.unused_map_names.assign(plan.unused_map_names().begin(), plan.unused_map_names().end());
  return made;
}

}  // namespace cairn
