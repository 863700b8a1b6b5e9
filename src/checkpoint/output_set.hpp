// SPDX-License-Identifier: BSD-3-Clause
// The output files of a run under their temporary names, with a journal where the run can be continued.
// Local; for the coordinator.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cairn/checkpoint.hpp"
#include "checkpoint/consolidation_plan.hpp"
#include "checkpoint/journal_job.hpp"
#include "checkpoint/new_file.hpp"
#include "checkpoint/planned_outputs.hpp"
#include "checkpoint/resumption.hpp"
#include "storage/atomic_outputs.hpp"
#include "storage/made_directories.hpp"

namespace cairn {

class OutputSet {
 public:
  /// All arguments outlive it.
  OutputSet(FileSystem& files, const ConsolidateOptions& options, ConsolidationPlan& plan)
      : files_(files), options_(options), plan_(plan), made_(files) {}

  /// What makes this run a job that can be told from others.
  struct Job {
    FileSystem& view;  ///< the way to the source
    const Catalog& source;
    const PlannedOutputs& planned;
    const FileDigest& metadata;
    const std::vector<std::string>& machines;  ///< of all ranks
    /// Options that are not in ConsolidateOptions, with their values.
    std::vector<std::pair<std::string, std::string>> options{};
    std::vector<std::span<const std::byte>> texts{};  ///< written beside the tensors: pickles, headers
    std::vector<std::string> copied{};                ///< files of the source's directory that are copied
  };
  struct Files {
    std::vector<AtomicOutputs::Wanted> wanted;  ///< the main output comes first
    /// Made under their final names, which nothing refers to before the main output is there.
    std::vector<AtomicOutputs::Wanted> named{};
    bool discard_leftovers = false;  ///< without options.resume too
  };
  /// Missing directories are made, which go again when the run fails, as the files do. With options.resume as
  /// begin_or_continue() does, and what an earlier run has done goes into the plan; else as
  /// AtomicOutputs::create().
  void create(Files all, const Job& job);

  const AtomicOutput& operator[](std::size_t index) const { return outputs()[index]; }
  JournalFile* journal() { return resumption_ ? &resumption_->journal : nullptr; }
  const PassedBytes& passed_before() const;
  /// Whether outputs that are there may be this job's own, `mains` being what its main one may be called:
  /// create() knows better.
  bool may_be_there(std::span<const std::string> mains) const;
  /// As RunOutputs::start_anew().
  void start_anew();
  /// As AtomicOutputs::publish(). Named files stay when the main output does. The journal tells that all is
  /// done, until end_job() removes it.
  void publish();
  void end_job();

 private:
  JournalJob described(const Job& job) const;
  void keep();
  const AtomicOutputs& outputs() const { return resumption_ ? resumption_->outputs : *plain_; }
  AtomicOutputs& outputs() { return resumption_ ? resumption_->outputs : *plain_; }

  FileSystem& files_;
  const ConsolidateOptions& options_;
  ConsolidationPlan& plan_;
  MadeDirectories made_;  // before what is in them
  std::vector<AtomicOutputs::Wanted> named_;
  std::optional<AtomicOutputs> plain_;
  std::vector<NewFile> new_files_;        // the named ones, without options.resume
  std::optional<Resumption> resumption_;  // with options.resume
  std::optional<SayOnSignal> on_signal_;
};

}  // namespace cairn
