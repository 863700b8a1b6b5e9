// SPDX-License-Identifier: BSD-3-Clause
// What makes two consolidations one job. Local; for the coordinator.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cairn/checkpoint.hpp"
#include "checkpoint/consolidation_plan.hpp"
#include "checkpoint/journal.hpp"

namespace cairn {

struct FileDigest {
  std::uint64_t bytes = 0, hash = 0;
};
FileDigest digest_file(FileSystem& files, const std::string& path);
FileDigest digest(std::span<const std::byte> bytes);

/// All but source, windows, shards and outputs. Options that change neither the bytes nor what is checked are
/// left out.
JournalJob describe_job(const ConsolidateOptions& options, const ConsolidationPlan& plan,
                        const FileDigest& metadata);

/// The files in `directory`, with their sizes and times.
std::vector<JournalJob::Shard> find_shard_times(FileSystem& files, const std::string& directory,
                                                std::span<const std::string> names);

/// Throws corrupt when `passed` speaks of chunks that the catalogue does not have.
void check_pieces_read(const PassedBytes& passed, const Catalog& catalog);

}  // namespace cairn
