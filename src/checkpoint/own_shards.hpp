// SPDX-License-Identifier: BSD-3-Clause
// The shards that one rank writes in a save. Local.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "cairn/live_state.hpp"
#include "cairn/storage.hpp"
#include "checkpoint/new_file.hpp"
#include "checkpoint/save_open.hpp"
#include "engine/shard_writer.hpp"

namespace cairn {

class OwnShards {
 public:
  /// Of rank `state.description().rank()`. Takes views of the state's tensors and copies its objects; no file
  /// is made yet. `files` outlives it.
  OwnShards(FileSystem& files, const OpenedSave& save, const LiveState& state);
  OwnShards(OwnShards&&) noexcept;
  /// Removes the files unless they are kept.
  ~OwnShards();

  std::uint64_t object_bytes() const;
  std::uint64_t staging_bytes() const;
  /// As of a ShardJob, for all files: the blocks of one come after those of the one before.
  std::uint64_t plan_staging(std::uint64_t piece_bytes, std::uint64_t first_block);
  void stage(StagingBuffers& buffers);
  /// Makes the files and writes all; they are durable with SaveOptions::sync, and closed. As
  /// ShardJob::write().
  void write(StagingBuffers* staged = nullptr);

  /// Of the items of the plan, in order, when all is written.
  std::vector<WrittenItem> written() const;
  /// All is written, and rank 0 may publish it: the end of this process by a signal removes nothing.
  void outlive_signals();
  void keep();

 private:
  struct Shard {
    std::string path;
    ShardJob job;
  };

  FileSystem& files_;
  double visibility_timeout_s_;
  bool sync_;
  int threads_;
  std::vector<Shard> shards_;
  std::deque<NewFile> made_;
};

}  // namespace cairn
