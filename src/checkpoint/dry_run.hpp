// SPDX-License-Identifier: BSD-3-Clause
// What a run would do, told from its plan. Local.
#pragma once

#include <span>
#include <vector>

#include "base/byte_writer.hpp"
#include "cairn/checkpoint.hpp"
#include "checkpoint/gathered_files.hpp"
#include "checkpoint/output_catalog.hpp"
#include "checkpoint/planned_outputs.hpp"
#include "formats/source.hpp"

namespace cairn {

/// Entries `indices` of `chosen`, or of the source where that is null.
std::vector<DryRunEntry> dry_run_entries(std::span<const std::uint32_t> indices, const Catalog& source,
                                         const OutputCatalog* chosen);

/// Bytes of the items that are read, by file of the source; files without any are left out. `gathered`: see
/// ShardSites; empty when every rank reads.
std::vector<DryRunFile> dry_run_files(const Catalog& source, const std::vector<DryRunOutput>& outputs,
                                      std::span<const GatheredFile> gathered);

/// Reads what windows [owned.begin, owned.end) are made of, as a run would, and throws it away: four
/// stretches of 8 windows at most, and none is begun after a second. Sets the figures of `rank` that are
/// measured.
void measure_reading(Source& source, const PlannedOutputs& planned, ByteRange owned, int threads,
                     DryRunRank& rank);

/// For the wire.
Bytes encode(const DryRunRank& rank);

/// The ranks by what they have measured and by what they would move. When `files` have readers, these read.
std::vector<DryRunRank> dry_run_ranks(const std::vector<Bytes>& measured, const PlannedOutputs& planned,
                                      int writing_ranks, const std::vector<DryRunFile>& files);

}  // namespace cairn
