// SPDX-License-Identifier: BSD-3-Clause
// The files of a consolidation as the coordinator makes them: planned, created, closed, published. Local.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cairn/checkpoint.hpp"
#include "checkpoint/consolidated_state.hpp"
#include "checkpoint/consolidation_plan.hpp"
#include "checkpoint/journal_job.hpp"
#include "checkpoint/output_requests.hpp"
#include "checkpoint/output_set.hpp"
#include "checkpoint/planned_outputs.hpp"
#include "checkpoint/run_outputs.hpp"
#include "formats/checkpoint_source.hpp"
#include "plan/names/ema.hpp"

namespace cairn {

class OutputFiles final : public RunOutputs {
 public:
  /// All arguments outlive it. What there is to say goes into `report`.
  OutputFiles(FileSystem& files, const ConsolidateOptions& options, ConsolidationPlan& plan,
              ConsolidateReport& report)
      : files_(files), options_(options), plan_(plan), report_(report), set_(files, options, plan) {}

  void only_tell(DryRunReport& report) override { dry_ = &report; }
  /// As choose_destination; with options.resume an output that a journal lies beside may be there.
  void choose(FileSystem& view, const std::string& source, std::vector<OutputRequest>& requests) override;

  /// An output for each request.
  void plan_all(const std::vector<OutputRequest>& requests, CheckpointSource& source,
                std::uint64_t metadata_bytes) override;
  /// Creates the temporaries, whose paths go into the plan. `view` is the coordinator's way to the source.
  /// Throws as check_output, check_room and AtomicOutputs::create do; then nothing is left.
  /// With options.resume as begin_or_continue does: `machines` are those of all ranks, `metadata` what the
  /// source's metadata is; what an earlier run has done goes into the plan. After only_tell() it throws as
  /// otherwise, and makes nothing.
  void create(FileSystem& view, const PlannedOutputs& planned, const FileDigest& metadata,
              const std::vector<std::string>& machines) override;

  /// With options.resume.
  void start_anew() override { set_.start_anew(); }
  JournalFile* journal() override { return set_.journal(); }
  const PassedBytes& passed_before() const override { return set_.passed_before(); }

  /// Of a plan that is complete it only goes into the report.
  void finish(const PlannedOutputs& planned, const std::vector<std::uint32_t>& crcs) override;
  void publish() override;

 private:
  // An output of the plan.
  struct Output {
    std::string file;
    ConsolidatedState state;
    std::optional<torch_file::Layout> objects_layout;
    std::size_t objects_index;  // in the set of files
  };

  bool by_kernel() const { return options_.copy == CopyMode::kernel; }
  void tell(const std::string& file, const ConsolidatedState& state, const OutputCatalog* chosen);
  void check(const std::vector<AtomicOutputs::Wanted>& wanted);
  void plan_one(const std::string& file, const OutputCatalog* chosen, std::uint64_t metadata_bytes);
  void warn_of_gaps(const EmaGaps& gaps);
  std::vector<AtomicOutputs::Wanted> wanted_files(FileSystem& view, const PlannedOutputs& planned);
  void want_objects(FileSystem& view, Output& output, std::vector<AtomicOutputs::Wanted>& wanted);
  void finish_one(std::size_t index, const PlannedOutputs& planned, const std::vector<std::uint32_t>& crcs);
  void write_closing(std::size_t index, const PlannedOutputs& planned,
                     const std::vector<std::uint32_t>& crcs);
  std::vector<std::uint64_t> records_without_back(std::size_t index, const PlannedOutputs& planned) const;
  void write_objects(const Output& output);
  bool may_be_ours() const { return set_.may_be_there({&outputs_[0].file, 1}); }
  void report_output(std::size_t index, std::uint64_t bytes, const FileState& state);
  void check_published(const OutputReport& output) const;

  FileSystem& files_;
  const ConsolidateOptions& options_;
  ConsolidationPlan& plan_;
  ConsolidateReport& report_;
  std::string forbidden_;  // the source, which no output may lie in or replace
  CheckpointSource* source_ = nullptr;
  std::vector<Output> outputs_;  // as plan_.outputs
  OutputSet set_;
  DryRunReport* dry_ = nullptr;
};

}  // namespace cairn
