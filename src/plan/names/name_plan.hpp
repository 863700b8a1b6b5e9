// SPDX-License-Identifier: BSD-3-Clause
// Rules carried out on the names of a checkpoint: what is kept, under which name and path, as which type.
// Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/tensor.hpp"
#include "plan/names/name_rules.hpp"
#include "plan/names/path_name.hpp"

namespace cairn {

/// A tensor or object of the checkpoint. An empty path: the name is the only key.
struct NamedEntry {
  std::string_view name;
  std::span<const PathKey> path;
  DType dtype = DType::uint8;  ///< of a tensor
  bool is_tensor = true;
};

struct KeptEntry {
  std::uint32_t entry;  ///< index into the entries given; ascending
  DType dtype;          ///< to write; of an object: as given
  bool is_renamed;      ///< false: name and path are the entry's own
  std::string_view name;
  std::span<const PathKey> path;  ///< PathKey::recorded counts steps of the entry's own path
};

/// Holds what its views point to, beside the entries given. Moves, and is not copied.
class NamePlan {
 public:
  std::span<const KeptEntry> kept() const& { return kept_; }
  /// Old names of the map file that no kept entry had: worth a warning, since select may have left them out.
  std::span<const std::string> unused_map_names() const& { return unused_map_names_; }

 private:
  friend class NamePlanner;

  std::vector<KeptEntry> kept_;
  std::unique_ptr<std::pmr::monotonic_buffer_resource> storage_ =
      std::make_unique<std::pmr::monotonic_buffer_resource>();  // of new names and paths
  std::vector<std::string> unused_map_names_;
};

/// In the order select, exclude, unwrap, strip-prefix, rename, map, cast. The entries must outlive the plan;
/// the rules need not. With `nested` the kept paths must fit into one nested state, besides names being
/// unique. Collisions are looked for where rules change names: those of the checkpoint itself are not found.
///
/// Throws not_found when a glob, a prefix or a rename matches nothing or nothing is left; mismatch, naming
/// both, when two entries get one name or path, a leaf comes to lie under a leaf, or a container would be
/// dict and list; mismatch when the map leaves names over; unsupported when a cast names tensors that cannot
/// be cast.
NamePlan plan_names(const NameRules& rules, std::span<const NamedEntry> entries, bool nested);

}  // namespace cairn
