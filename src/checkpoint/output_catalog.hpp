// SPDX-License-Identifier: BSD-3-Clause
// The catalogue of one output: what its rules keep of the source, under new names, paths and types. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cairn/metadata.hpp"
#include "plan/names/name_plan.hpp"

namespace cairn {

struct OutputCatalog {
  Catalog catalog;                              ///< without chunks; dtypes are those to write
  std::vector<std::uint32_t> tensors, objects;  ///< their indices in the source's catalogue
  std::vector<std::string> unused_map_names;
};

/// The names of a catalogue as rules take them. The catalogue must outlive it.
class NamedEntries {
 public:
  explicit NamedEntries(const Catalog& catalog);
  std::span<const NamedEntry> all() const { return entries_; }

 private:
  std::vector<PathKey> keys_;
  std::vector<NamedEntry> entries_;
};

/// Throws as plan_names does. Strings that stay are the same str objects, for torch's pickles depend on it.
OutputCatalog apply_rules(const Catalog& source, const NamedEntries& entries, const NameRules& rules,
                          bool nested);

}  // namespace cairn
