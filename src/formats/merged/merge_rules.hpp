// SPDX-License-Identifier: BSD-3-Clause
// How the torch file beside the shards of a directory goes together with them. Pure.
//
// Lightning (lightning.fabric's and pytorch's "sharded" checkpoints, meta.pt): what the file has at its top
// replaces what the shards have there. The Trainer's form, as Lightning's own consolidation gives it: `model`
// or `state_dict` becomes `state_dict`, `optimizer_0`, `optimizer_1`, … become the list `optimizer_states`,
// and both come last.
// Megatron (megatron.core's torch_dist, common.pt): dicts are joined; a value that both have is an error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cairn/metadata.hpp"
#include "formats/merged/merged_catalog.hpp"

namespace cairn {

enum class MergeRule : std::uint8_t {
  lightning_trainer,  ///< a folder without `model` and `state_dict` stays as it is: Fabric's
  lightning_stored,   ///< names as they are stored
  megatron,
};

struct MergedParts {
  MergedCatalog::Made made;  ///< part 0: the shards, 1: the file
  std::vector<std::string> notes;
};

/// Throws mismatch when names exclude each other: two of one name, `model` beside `state_dict`, optimizers
/// that are not numbered from 0 without gaps.
MergedParts merge_parts(const Catalog& shards, const Catalog& file, MergeRule rule);

}  // namespace cairn
