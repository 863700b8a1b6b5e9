// SPDX-License-Identifier: BSD-3-Clause
#include "formats/chunk_places.hpp"

#include "cairn/box.hpp"

namespace cairn {
namespace {

constexpr std::size_t kMaxKeptPlaces = 4096;

}  // namespace

bool fills_row_major(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides,
                     std::uint64_t element_bytes, std::uint64_t first_byte, std::uint64_t storage_bytes) {
  const auto elements = static_cast<std::uint64_t>(element_count(shape));
  if (first_byte != 0 || storage_bytes != elements * element_bytes) return false;
  std::int64_t expected = 1;  // strides of dimensions of one element say nothing
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] != 1 && strides[d] != expected) return false;
    expected *= shape[d];
  }
  return true;
}

std::shared_ptr<const ChunkPlace> ChunkPlaces::find(std::uint64_t chunk) {
  const std::lock_guard lock(mutex_);
  const auto found = places_.find(chunk);
  return found == places_.end() ? nullptr : found->second;
}

std::shared_ptr<const ChunkPlace> ChunkPlaces::keep(std::uint64_t chunk, ChunkPlace place) {
  auto kept = std::make_shared<const ChunkPlace>(std::move(place));
  const std::lock_guard lock(mutex_);
  if (places_.size() >= kMaxKeptPlaces) places_.clear();
  places_.insert_or_assign(chunk, kept);
  return kept;
}

}  // namespace cairn
