// SPDX-License-Identifier: BSD-3-Clause
// Writes one `.distcp` file of a save: items from memory, each byte once. Local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cairn/storage.hpp"
#include "cairn/tensor.hpp"
#include "engine/staging_buffers.hpp"

namespace cairn {

/// What one item of the file is made of.
struct ShardItem {
  TensorView view;                                    ///< a tensor; data may be null when it has no elements
  std::optional<std::vector<std::byte>> object = {};  ///< then the item is this
};

/// Where it lies, and the CRC-32 of its bytes.
struct WrittenItem {
  std::uint64_t byte_offset, byte_length;
  std::uint32_t crc;
};

/// The writing of one `.distcp` file. The items lie one after the other. Payloads without gaps in the
/// processor's memory go to the file straight from there, in pieces that the caches hold while their CRC is
/// taken; what is small, strided or on a device passes through a buffer of kShardBuffer bytes of each thread.
/// Of a large tensor on a device the next bytes are on their way (DeviceMemory::start_copy_out) while those
/// before are written.
/// The bytes depend neither on the number of threads nor on whether they are staged.
class ShardJob {
 public:
  explicit ShardJob(std::vector<ShardItem> items);
  ShardJob(ShardJob&& other) noexcept;
  ~ShardJob();

  std::uint64_t file_bytes() const;
  std::uint64_t object_bytes() const;   ///< that it holds
  std::uint64_t staging_bytes() const;  ///< room that all payloads of tensors need

  /// All payloads will be staged, in blocks of `piece_bytes` at most: a power of two from kShardBuffer on.
  /// The first one will have the number `first_block`; returns that after the last one. Once, before the
  /// rest.
  std::uint64_t plan_staging(std::uint64_t piece_bytes, std::uint64_t first_block);
  /// Copies payloads through `buffers`, in order, and fills the blocks. When it returns, tensors are looked
  /// at no more: all is copied, or the buffers have stopped. Throws what a copy throws.
  void stage(StagingBuffers& buffers, int threads);

  /// Into `file`, which is empty; it is given its size. What is staged comes from `staged`, null: the tensors
  /// are looked at. Waits for blocks and drains them; what fails stops the buffers. After a failure nothing
  /// can be written any more.
  void write(File& file, int threads, StagingBuffers* staged = nullptr);
  /// Of the items, in order, when all is written.
  const std::vector<WrittenItem>& written() const { return written_; }

 private:
  struct LargeItem;
  struct Task;

  void place_items();
  void make_tasks();
  void add_large(std::size_t item);
  std::uint64_t room_of(const Task& task) const;
  void stage_task(const Task& task, std::byte* room);

  std::vector<ShardItem> items_;
  std::vector<WrittenItem> written_;
  std::vector<std::unique_ptr<LargeItem>> large_;
  std::vector<Task> tasks_;
  std::uint64_t piece_bytes_;      // of large payloads, at most
  std::uint64_t first_block_ = 0;  // task i's block is number first_block_ + i
  friend class ShardThread;
};

inline constexpr std::uint64_t kShardBuffer = 1 << 20;
inline constexpr std::uint64_t kShardPiece = 8 << 20;  ///< of a large payload, for one thread

}  // namespace cairn
