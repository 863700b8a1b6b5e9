// SPDX-License-Identifier: BSD-3-Clause
// A checkpoint of safetensors files as what a run writes: cut into files, created, closed, published. Local.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cairn/convert.hpp"
#include "checkpoint/consolidation_plan.hpp"
#include "checkpoint/output_catalog.hpp"
#include "checkpoint/output_set.hpp"
#include "checkpoint/run_outputs.hpp"
#include "formats/safetensors/header.hpp"

namespace cairn {

struct SafetensorsTarget {
  std::optional<std::uint64_t> most_bytes;  ///< of data in a file; none: kMostShardBytes, of one file all
  TiedPolicy tied = TiedPolicy::keep;
};

class SafetensorsOutputs final : public RunOutputs {
 public:
  /// All arguments outlive it. What there is to say goes into `report`.
  SafetensorsOutputs(FileSystem& files, const ConsolidateOptions& options, const SafetensorsTarget& target,
                     ConsolidationPlan& plan, ConsolidateReport& report)
      : files_(files),
        options_(options),
        target_(target),
        plan_(plan),
        report_(report),
        set_(files, options, plan) {}

  void only_tell(DryRunReport& report) override { dry_ = &report; }
  void choose(FileSystem& view, const std::string& source, std::vector<OutputRequest>& requests) override;
  /// Throws unsupported, with all names, for objects that are not to be dropped, dtypes without a code, and
  /// headers that no reader takes.
  void plan_all(const std::vector<OutputRequest>& requests, CheckpointSource& source,
                std::uint64_t metadata_bytes) override;
  void create(FileSystem& view, const PlannedOutputs& planned, const FileDigest& metadata,
              const std::vector<std::string>& machines) override;
  void start_anew() override { set_.start_anew(); }
  JournalFile* journal() override { return set_.journal(); }
  const PassedBytes& passed_before() const override { return set_.passed_before(); }
  void finish(const PlannedOutputs& planned, const std::vector<std::uint32_t>& crcs) override;
  /// The index appears last. Files of an older checkpoint that the new one has no use for go after that.
  void publish() override;

 private:
  // A file of the plan.
  struct Output {
    std::string path, header;
    std::uint64_t data_bytes = 0;
    std::uint64_t bytes() const { return header.size() + data_bytes; }
  };

  void refuse_objects();
  void refuse_dtypes() const;
  std::vector<std::uint32_t> keep_tensors(CheckpointSource& source);
  void find_aliases(CheckpointSource& source, std::vector<bool>& is_alias);
  std::uint64_t most_bytes(std::uint64_t all) const;
  void add_file(std::span<const std::uint32_t> tensors, const std::string& name,
                safetensors::TextPairs& weights);
  void check_header(const Output& output, std::size_t tensors) const;
  bool has_index() const { return !index_.empty(); }
  std::string path_of(std::string_view name) const;
  /// What may be there: what is replaced, and the outputs of a run that goes on.
  bool may_replace() const;
  std::vector<AtomicOutputs::Wanted> wanted_files() const;
  void tell(const std::vector<AtomicOutputs::Wanted>& wanted, std::uint64_t free_bytes);
  void check_other_form() const;
  void find_old_files();
  void drop_old_files();
  void report_output(std::uint64_t bytes);

  FileSystem& files_;
  const ConsolidateOptions& options_;
  const SafetensorsTarget& target_;
  ConsolidationPlan& plan_;
  ConsolidateReport& report_;

  bool is_directory_ = false;
  std::string destination_;  // the directory, or the file
  std::string forbidden_;    // the source
  OutputCatalog chosen_;
  std::vector<std::uint32_t> tensors_;  // of it, that are written
  const Catalog* source_ = nullptr;
  safetensors::TextPairs metadata_;  // of every file
  std::vector<Output> outputs_;
  std::string index_;  // its text; empty: there is none
  OutputSet set_;
  std::vector<std::string> old_files_;
  DryRunReport* dry_ = nullptr;
};

}  // namespace cairn
