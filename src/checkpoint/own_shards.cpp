// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/own_shards.hpp"

#include <filesystem>

#include "checkpoint/save_parts.hpp"

namespace cairn {

OwnShards::OwnShards(FileSystem& files, const OpenedSave& save, const LiveState& state)
    : files_(files),
      visibility_timeout_s_(save.options.visibility_timeout_s),
      sync_(save.options.sync),
      threads_(save.threads) {
  const int rank = state.description().rank();
  const auto items = save.part->items();
  std::size_t begin = 0;
  do {  // a rank with nothing to write has an empty file, as torch makes it
    const std::uint32_t file = items.empty() ? 0 : items[begin].file;
    std::vector<ShardItem> contents;
    for (; begin < items.size() && items[begin].file == file; ++begin)
      contents.push_back(content_of(state, *save.part, items[begin]));
    const std::string name = dcp::shard_name(rank, save.first_index + file);
    shards_.push_back(
        {(std::filesystem::path(save.directory) / name).string(), ShardJob(std::move(contents))});
  } while (begin < items.size());
}

OwnShards::OwnShards(OwnShards&&) noexcept = default;
OwnShards::~OwnShards() = default;

std::uint64_t OwnShards::object_bytes() const {
  std::uint64_t bytes = 0;
  for (const Shard& shard : shards_) bytes += shard.job.object_bytes();
  return bytes;
}

std::uint64_t OwnShards::staging_bytes() const {
  std::uint64_t bytes = 0;
  for (const Shard& shard : shards_) bytes += shard.job.staging_bytes();
  return bytes;
}

std::uint64_t OwnShards::plan_staging(std::uint64_t piece_bytes, std::uint64_t first_block) {
  for (Shard& shard : shards_) first_block = shard.job.plan_staging(piece_bytes, first_block);
  return first_block;
}

void OwnShards::stage(StagingBuffers& buffers) {
  for (Shard& shard : shards_) shard.job.stage(buffers, threads_);
}

void OwnShards::write(StagingBuffers* staged) {
  for (Shard& shard : shards_) {
    NewFile& file = made_.emplace_back(NewFile::create_late(files_, shard.path, visibility_timeout_s_));
    shard.job.write(file.file(), threads_, staged);
    if (sync_) file.file().sync();
    file.close();
  }
}

std::vector<WrittenItem> OwnShards::written() const {
  std::vector<WrittenItem> all;
  for (const Shard& shard : shards_)
    all.insert(all.end(), shard.job.written().begin(), shard.job.written().end());
  return all;
}

void OwnShards::outlive_signals() {
  for (NewFile& file : made_) file.outlive_signals();
}

void OwnShards::keep() {
  for (NewFile& file : made_) file.keep();
  made_.clear();
}

}  // namespace cairn
