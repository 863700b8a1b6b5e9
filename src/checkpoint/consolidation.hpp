// SPDX-License-Identifier: BSD-3-Clause
// One run that reads a checkpoint and writes another: what consolidate, convert and reshard have in common.
#pragma once

#include <optional>

#include "cairn/checkpoint.hpp"
#include "checkpoint/shard_outputs.hpp"
#include "checkpoint/visibility.hpp"

namespace cairn {

struct RunTarget {
  Sources sources = Sources::directories;
  std::optional<ShardTarget> shards{};  ///< else torch files
};

/// Collective. As consolidate().
ConsolidateReport run_consolidation(Communicator& comm, FileSystem& files, const ConsolidateOptions& options,
                                    const RunTarget& target);
/// Collective. As dry_run_consolidate().
DryRunReport run_dry(Communicator& comm, FileSystem& files, const ConsolidateOptions& options,
                     const RunTarget& target);

}  // namespace cairn
