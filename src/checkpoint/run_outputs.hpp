// SPDX-License-Identifier: BSD-3-Clause
// What a run writes, as the coordinator makes it: planned, created, closed, published. Local.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/journal_job.hpp"
#include "checkpoint/journal_reports.hpp"
#include "checkpoint/output_requests.hpp"
#include "checkpoint/planned_outputs.hpp"
#include "engine/window_filler.hpp"
#include "formats/checkpoint_source.hpp"

namespace cairn {

class RunOutputs {
 public:
  virtual ~RunOutputs() = default;

  /// From now on nothing is made: `report`, which outlives the object, is told of the outputs instead.
  virtual void only_tell(DryRunReport& report) = 0;
  /// Refuses destinations that may not be written, before the source is looked into; `source` is what must
  /// not be overwritten. Completes the requests by what is asked of the file system.
  virtual void choose(FileSystem& view, const std::string& source, std::vector<OutputRequest>& requests) = 0;
  /// Adds what is to be written to the plan. `source` outlives the object; `metadata_bytes` is the size of
  /// its metadata.
  virtual void plan_all(const std::vector<OutputRequest>& requests, CheckpointSource& source,
                        std::uint64_t metadata_bytes) = 0;
  /// Creates what all ranks will write to. `view` is the coordinator's way to the source, `machines` and
  /// `metadata` are for a journal. Where it throws nothing is left.
  virtual void create(FileSystem& view, const PlannedOutputs& planned, const FileDigest& metadata,
                      const std::vector<std::string>& machines) = 0;

  /// nullptr when none is kept.
  virtual JournalFile* journal() { return nullptr; }
  /// CRCs of windows that an earlier run has written.
  virtual const PassedBytes& passed_before() const = 0;

  /// The closing phase: what windows leave open. `crcs` are those of all numbers of the planned outputs.
  virtual void finish(const PlannedOutputs& planned, const std::vector<std::uint32_t>& crcs) = 0;
  /// Nothing of what was written is kept for a later run, with or without a journal.
  virtual void start_anew() {}
  /// Makes all of it visible, and throws io unless it is there.
  virtual void publish() = 0;
};

/// Warns of lines of the request's map that name nothing.
void warn_of_map(const OutputRequest& request, std::span<const std::string> unused,
                 std::vector<std::string>& warnings);

}  // namespace cairn
