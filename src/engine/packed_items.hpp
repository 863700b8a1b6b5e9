// SPDX-License-Identifier: BSD-3-Clause
// Items of a save as the bytes of a file that is nowhere: read by range, made when they are asked for. Local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cairn/device.hpp"
#include "cairn/plan.hpp"
#include "engine/shard_writer.hpp"

namespace cairn {

/// Item after item without gaps: of a tensor its elements, row-major, without a frame; of an object its
/// bytes.
class PackedItems {
 public:
  /// The memory that the views see outlives the object.
  explicit PackedItems(std::vector<ShardItem> items);

  std::uint64_t byte_count() const { return ends_.empty() ? 0 : ends_.back(); }
  /// Of the items, in their order.
  std::vector<ItemPlace> places() const;
  /// Any thread, several at a time. The range lies in [0, byte_count()). Throws what DeviceMemory::copy_out
  /// throws.
  void read(std::uint64_t byte_offset, std::span<std::byte> into) const;
  /// Where the range lies if it is of one tensor, without gaps in memory that the link reaches; else empty.
  std::span<const std::byte> on_device(std::uint64_t byte_offset, std::uint64_t bytes,
                                       const DeviceLink& link) const;

 private:
  std::size_t item_at(std::uint64_t byte_offset) const;
  std::uint64_t begin(std::size_t item) const { return item == 0 ? 0 : ends_[item - 1]; }

  std::vector<ShardItem> items_;
  std::vector<std::uint64_t> ends_;
};

}  // namespace cairn
