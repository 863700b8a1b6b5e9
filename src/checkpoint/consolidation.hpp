// SPDX-License-Identifier: BSD-3-Clause
// One run that reads a checkpoint, or what ranks have in memory, and writes a checkpoint: what consolidate,
// convert and reshard have in common.
#pragma once

#include <optional>

#include "cairn/checkpoint.hpp"
#include "checkpoint/live_site.hpp"
#include "checkpoint/safetensors_outputs.hpp"
#include "checkpoint/shard_outputs.hpp"
#include "checkpoint/visibility.hpp"

namespace cairn {

struct RunTarget {
  Sources sources = Sources::sharded;
  std::optional<ShardTarget> shards{};             ///< else
  std::optional<SafetensorsTarget> safetensors{};  ///< else torch files
  /// The torch file that belongs to a directory is none of the source.
  bool keeps_companion = false;
  /// What is read, in place of options.source; it outlives the run, which takes the catalogue. Each rank's
  /// `files` have its own file of the site.
  LiveSite* live = nullptr;
};

/// Collective. As consolidate().
ConsolidateReport run_consolidation(Communicator& comm, FileSystem& files, const ConsolidateOptions& options,
                                    const RunTarget& target);
/// Collective. As dry_run_consolidate().
DryRunReport run_dry(Communicator& comm, FileSystem& files, const ConsolidateOptions& options,
                     const RunTarget& target);

}  // namespace cairn
