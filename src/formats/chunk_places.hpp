// SPDX-License-Identifier: BSD-3-Clause
// Places of chunks as sources find them. Local.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>

#include "formats/source.hpp"

namespace cairn {

/// Whether the elements of a view, of `element_bytes` each, fill a storage of `storage_bytes` in row-major
/// order from its first byte on, `first_byte` being the distance of its first element from there.
bool fills_row_major(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides,
                     std::uint64_t element_bytes, std::uint64_t first_byte, std::uint64_t storage_bytes);

/// The places asked for lately. Thread-safe.
class ChunkPlaces {
 public:
  /// nullptr where it is not known.
  std::shared_ptr<const ChunkPlace> find(std::uint64_t chunk);
  std::shared_ptr<const ChunkPlace> keep(std::uint64_t chunk, ChunkPlace place);

 private:
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<const ChunkPlace>> places_;  // guarded
};

}  // namespace cairn
