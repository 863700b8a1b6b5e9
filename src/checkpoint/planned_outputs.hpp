// SPDX-License-Identifier: BSD-3-Clause
// The files of a plan as one rank writes them. Local.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "cairn/storage.hpp"
#include "checkpoint/consolidation_plan.hpp"
#include "engine/output_fan.hpp"
#include "engine/window_writer.hpp"
#include "formats/dcp/shards_layout.hpp"
#include "formats/safetensors/files_layout.hpp"

namespace cairn {

class PlannedOutputs {
 public:
  /// Both outlive it. One output without casts is what windows are cut from; else a sequence of all contents.
  PlannedOutputs(const ConsolidationPlan& plan, const Catalog& catalog);

  /// Of the torch file; of the shards, and of the safetensors files, which are one output.
  const torch_file::Layout& layout(std::size_t output) const { return layouts_[output]; }
  const dcp::ShardsLayout& shards() const { return *shards_; }
  const safetensors::FilesLayout& tensor_files() const { return *tensor_files_; }
  bool is_direct() const { return !fan_; }

  // --- what windows are made of ---------------------------------------------------------------------------
  const OutputLayout& window_layout() const;
  const std::vector<RecordContent>& contents() const;
  Windows windows() const;
  /// Of one thread's buffers beside those of the transfer, in bytes.
  std::uint64_t writer_bytes() const { return fan_ ? output_count() * kFanBytes : 0; }

  /// The windows [begin, end) of a rank; ranks from `writing_ranks` on have none.
  ByteRange owned_windows(int rank, int writing_ranks) const;

  struct Moved {
    std::uint64_t read_bytes = 0, written_bytes = 0;  ///< payload
  };
  /// What windows [begin, end) move.
  Moved moved_by(ByteRange owned) const;

  // --- files ----------------------------------------------------------------------------------------------
  void open(FileSystem& files, double timeout_s, bool sync);
  /// The shards, or safetensors files, as one file, in the coordinates of their layout.
  std::unique_ptr<File> joined(FileSystem& files, double timeout_s, bool sync) const;
  MakeWriter make_writer() const;
  File& file(std::size_t output) const { return *files_[output]; }
  void sync();  ///< also while other threads write
  void close(bool sync);

  // --- the closing phase ----------------------------------------------------------------------------------
  /// Sizes behind the numbers of the CRC pieces that writing leaves.
  std::vector<std::uint64_t> crc_bytes() const;
  /// Of an output's records, from those of all numbers.
  std::vector<std::uint32_t> crcs_of(std::size_t output, const std::vector<std::uint32_t>& all) const;
  /// The output's records that no window held whole: their backs are still zeros. Ascending.
  std::vector<std::uint64_t> split_records(std::size_t output) const;

 private:
  bool is_joined() const { return shards_ || tensor_files_; }
  std::size_t output_count() const { return is_joined() ? 1 : layouts_.size(); }
  const OutputLayout& output_layout(std::size_t output) const;
  const std::vector<RecordContent>& output_contents(std::size_t output) const;

  const ConsolidationPlan& plan_;
  std::vector<torch_file::Layout> layouts_;
  std::optional<dcp::ShardsLayout> shards_;
  std::optional<safetensors::FilesLayout> tensor_files_;
  std::vector<RecordContent> shard_contents_;
  std::optional<OutputFan> fan_;
  std::vector<std::unique_ptr<File>> files_;
};

}  // namespace cairn
