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
/// The bytes depend neither on the number of threads nor on what is staged.
class ShardJob {
 public:
  explicit ShardJob(std::vector<ShardItem> items);
  ShardJob(ShardJob&& other) noexcept;
  ~ShardJob();

  std::uint64_t file_bytes() const;
  std::uint64_t object_bytes() const;   ///< that it holds
  std::uint64_t staging_bytes() const;  ///< room that all payloads of tensors need

  /// Copies payloads into `room`, as many as fit, the last ones: a large one in part, too. What is copied is
  /// written from there, and its views are looked at no more. Returns the bytes of room used. Once, before
  /// anything is written.
  std::uint64_t stage(std::span<std::byte> room, int threads);
  /// Whether every payload is.
  bool is_staged() const { return first_staged_ == 0; }

  /// Into `file`, which is empty before the first of the two; it is given its size then. What is not staged,
  /// and all the rest. After a failure nothing can be written any more.
  void write_unstaged(File& file, int threads);
  void write_rest(File& file, int threads);
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
  void write_tasks(File& file, std::size_t first, std::size_t last, int threads);

  std::vector<ShardItem> items_;
  std::vector<WrittenItem> written_;
  std::vector<std::unique_ptr<LargeItem>> large_;
  std::vector<Task> tasks_;
  std::size_t first_staged_ = 0, next_ = 0;  // of the tasks
  friend class ShardThread;
};

inline constexpr std::uint64_t kShardBuffer = 1 << 20;

}  // namespace cairn
