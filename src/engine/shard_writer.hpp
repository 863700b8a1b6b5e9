// SPDX-License-Identifier: BSD-3-Clause
// Writes one `.distcp` file of a save: items from memory, each byte once. Local.
#pragma once

#include <cstdint>
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

/// Writes the items one after the other into `file`, which is empty, and gives it its size first. Payloads
/// without gaps in the processor's memory go to the file straight from there, in pieces that the caches hold
/// while their CRC is taken; what is small, strided or on a device passes through a buffer of kShardBuffer
/// bytes of each thread. The bytes do not depend on the number of threads.
std::vector<WrittenItem> write_shard(File& file, std::span<const ShardItem> items, int threads);

inline constexpr std::uint64_t kShardBuffer = 1 << 20;

}  // namespace cairn
