// SPDX-License-Identifier: BSD-3-Clause
// A DCP directory as what a run writes: planned for a number of ranks, created, closed, published. Local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/checkpoint.hpp"
#include "cairn/plan.hpp"
#include "checkpoint/consolidation_plan.hpp"
#include "checkpoint/output_catalog.hpp"
#include "checkpoint/output_set.hpp"
#include "checkpoint/run_outputs.hpp"
#include "formats/dcp/directory_output.hpp"
#include "formats/dcp/replaced_files.hpp"
#include "plan/layout_rules.hpp"

namespace cairn {

/// For whom it is laid out.
struct ShardTarget {
  int ranks = 1;
  std::size_t dim = 0;      ///< along which tensors are cut; those without it are whole
  std::string layout_file;  ///< rules that come first (plan/layout_rules.hpp); empty: none
  /// Of several directories, one for each top-level key: the key of this one, and all of them.
  std::string key;
  std::vector<std::string> keys;
  /// The files beside the source's shards that make it a Lightning or Megatron folder are copied.
  bool keeps_companion = false;
  /// With options.resume: the journal stays when all is published, and is found complete by the next run.
  bool keeps_journal = false;
};

class ShardOutputs final : public RunOutputs {
 public:
  /// All arguments outlive it. What there is to say goes into `report`.
  ShardOutputs(FileSystem& files, const ConsolidateOptions& options, const ShardTarget& target,
               ConsolidationPlan& plan, ConsolidateReport& report)
      : files_(files),
        options_(options),
        target_(target),
        plan_(plan),
        report_(report),
        set_(files, options, plan) {}

  void only_tell(DryRunReport& report) override { dry_ = &report; }
  void choose(FileSystem& view, const std::string& source, std::vector<OutputRequest>& requests) override;
  /// The files get their names now: of a job that is continued, those that its journal tells of.
  void plan_all(const std::vector<OutputRequest>& requests, CheckpointSource& source,
                std::uint64_t metadata_bytes) override;
  void create(FileSystem& view, const PlannedOutputs& planned, const FileDigest& metadata,
              const std::vector<std::string>& machines) override;
  void start_anew() override { set_.start_anew(); }
  JournalFile* journal() override { return set_.journal(); }
  const PassedBytes& passed_before() const override { return set_.passed_before(); }
  void finish(const PlannedOutputs& planned, const std::vector<std::uint32_t>& crcs) override;
  /// `.metadata` appears last. Files of the checkpoint before go after that.
  void publish() override;

 private:
  // A box of an entry, or an object, as an item.
  struct Item {
    std::uint32_t rank, entry;
    Box box;  // of a tensor
    std::uint64_t byte_offset, byte_length;
  };

  void take_key();
  std::vector<std::uint32_t> keep_entries();
  void read_objects(CheckpointSource& source);
  std::vector<RankState> states() const;
  TensorLayout layout_of(const TensorInfo& tensor) const;
  void require_use_of_rules() const;
  void warn_of_dim();
  void place_items(const std::vector<RankState>& states, const GlobalSavePlan& plan);
  bool is_job_there() const;
  void refuse_shared_shards() const;
  /// What may be there: what is replaced, and the outputs of a run that goes on.
  bool may_replace() const { return options_.overwrite || (options_.resume && is_job_there()); }
  /// Of a killed run that left no journal; what one tells of is given up when that is asked for only.
  bool discards_leftovers() const { return options_.resume || !is_job_there(); }
  dcp::DirectoryOutput::Place find_place() const;
  void make_catalog(const dcp::DirectoryOutput::Place& place);
  OutputSet::Files wanted_files(const PlannedOutputs& planned) const;
  std::vector<std::pair<std::string, std::string>> job_options() const;
  void tell(std::uint64_t free_bytes);
  void add_entry(std::span<const Item> items, std::span<const std::uint32_t> file_of, ShardPlan& shards);
  void copy_file(const std::string& from, File& to) const;
  /// Writes `.metadata` to `sink`; returns its bytes.
  std::uint64_t write_metadata(
      const std::function<void(std::uint64_t, std::span<const std::byte>)>& sink) const;
  std::uint64_t shards_bytes() const;
  std::string save_id() const;

  FileSystem& files_;
  const ConsolidateOptions& options_;
  const ShardTarget& target_;
  ConsolidationPlan& plan_;
  ConsolidateReport& report_;

  std::optional<LayoutRules> layout_rules_;
  std::string source_;  // directory
  const Catalog* catalog_ = nullptr;
  std::vector<std::string> companions_;  // files in it that are copied
  OutputCatalog chosen_;
  std::vector<std::uint32_t> entries_;            // of it, that are written
  std::vector<torch_file::StatePickle> objects_;  // of it
  std::vector<Item> items_;
  std::vector<std::uint64_t> shard_bytes_;  // by rank; 0: none
  std::uint32_t first_index_ = 0;
  OutputSet set_;  // .metadata, then the companions; the shards under their names
  dcp::ReplacedFiles replaced_;
  DryRunReport* dry_ = nullptr;
};

}  // namespace cairn
