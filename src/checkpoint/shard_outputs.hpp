// SPDX-License-Identifier: BSD-3-Clause
// A DCP directory as what a run writes: planned for a number of ranks, created, closed, published. Local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cairn/checkpoint.hpp"
#include "cairn/plan.hpp"
#include "checkpoint/consolidation_plan.hpp"
#include "checkpoint/new_file.hpp"
#include "checkpoint/output_catalog.hpp"
#include "checkpoint/run_outputs.hpp"
#include "formats/dcp/directory_output.hpp"
#include "plan/layout_rules.hpp"
#include "storage/made_directories.hpp"

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
};

class ShardOutputs final : public RunOutputs {
 public:
  /// All arguments outlive it. What there is to say goes into `report`.
  ShardOutputs(FileSystem& files, const ConsolidateOptions& options, const ShardTarget& target,
               ConsolidationPlan& plan, ConsolidateReport& report)
      : files_(files), options_(options), target_(target), plan_(plan), report_(report), made_(files) {}

  void only_tell(DryRunReport& report) override { dry_ = &report; }
  void choose(FileSystem& view, const std::string& source, std::vector<OutputRequest>& requests) override;
  /// Takes the directory, whose files get their names now.
  void plan_all(const std::vector<OutputRequest>& requests, CheckpointSource& source,
                std::uint64_t metadata_bytes) override;
  void create(FileSystem& view, const PlannedOutputs& planned, const FileDigest& metadata,
              const std::vector<std::string>& machines) override;
  const PassedBytes& passed_before() const override;
  void finish(const PlannedOutputs& planned, const std::vector<std::uint32_t>& crcs) override;
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
  void place_items(const std::vector<RankState>& states, const GlobalSavePlan& plan);
  std::uint64_t check_room();  ///< what is free
  void make_catalog(const dcp::DirectoryOutput::Place& place);
  void tell(const Catalog& source, std::uint64_t free_bytes);
  void add_entry(std::span<const Item> items, std::span<const std::uint32_t> file_of, ShardPlan& shards);
  void copy_file(const std::string& from, File& to);
  void keep_files();
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
  MadeDirectories made_;  // before what is in them

  std::optional<LayoutRules> layout_rules_;
  std::string source_;                   // directory
  std::vector<std::string> companions_;  // files in it that are copied
  OutputCatalog chosen_;
  std::vector<std::uint32_t> entries_;            // of it, that are written
  std::vector<torch_file::StatePickle> objects_;  // of it
  std::vector<Item> items_;
  std::vector<std::uint64_t> shard_bytes_;  // by rank; 0: none
  std::optional<dcp::DirectoryOutput> output_;
  std::vector<NewFile> new_files_;
  DryRunReport* dry_ = nullptr;
};

}  // namespace cairn
