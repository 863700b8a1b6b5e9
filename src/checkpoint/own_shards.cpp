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

std::uint64_t OwnShards::stage(std::span<std::byte> room) {
  std::uint64_t used = 0;
  for (auto shard = shards_.rbegin(); shard != shards_.rend(); ++shard)
    used += shard->job.stage(room.subspan(used), threads_);
  return used;
}

void OwnShards::write_unstaged() {
  for (Shard& shard : shards_) {
    if (shard.job.is_staged()) continue;
    make(shard);
    shard.job.write_unstaged(shard.file->file(), threads_);
  }
}

void OwnShards::write() {
  for (Shard& shard : shards_) {
    if (shard.file == nullptr) make(shard);
    shard.job.write_rest(shard.file->file(), threads_);
    if (sync_) shard.file->file().sync();
    shard.file->close();
  }
}

void OwnShards::make(Shard& shard) {
  shard.file = &made_.emplace_back(NewFile::create_late(files_, shard.path, visibility_timeout_s_));
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
