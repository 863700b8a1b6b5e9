// SPDX-License-Identifier: BSD-3-Clause
#include "engine/box_reader.hpp"

#include <algorithm>

namespace cairn {
namespace {

constexpr std::uint64_t kCheapSpanBytes = 16 << 10;  // read whole, however sparse
constexpr std::uint64_t kMaxOverRead = 4;            // bytes read per byte wanted, beyond that size
constexpr std::uint64_t kDirectRunBytes = 32 << 10;  // runs from here on go straight into the target

// Outermost (largest source stride) first, without dimensions of one element, neighbours that are contiguous
// on both sides joined.
std::vector<CopyDim> normalize(std::vector<CopyDim> dims) {
  std::erase_if(dims, [](const CopyDim& dim) { return dim.size == 1; });
  std::ranges::stable_sort(dims, std::ranges::greater{}, &CopyDim::source_stride);
  std::vector<CopyDim> joined;
  for (const CopyDim& dim : dims) {
    if (!joined.empty() && joined.back().source_stride == dim.source_stride * dim.size &&
        joined.back().target_stride == dim.target_stride * dim.size) {
      joined.back() = {joined.back().size * dim.size, dim.source_stride, dim.target_stride};
    } else {
      joined.push_back(dim);
    }
  }
  return joined;
}

bool is_run(const CopyDim& dim) { return dim.source_stride == 1 && dim.target_stride == 1; }

}  // namespace

void BoxReader::read(const ChunkPlace& place, std::uint64_t byte_offset, std::vector<CopyDim> dims,
                     std::byte* target, std::uint64_t element_bytes) {
  element_bytes_ = element_bytes;
  read_sorted(place, byte_offset, normalize(std::move(dims)), target);
}

void BoxReader::read_sorted(const ChunkPlace& place, std::uint64_t byte_offset, std::span<const CopyDim> dims,
                            std::byte* target) {
  if (dims.empty()) return source_.read(place.file, byte_offset, {target, element_bytes_});
  const CopyDim& outer = dims[0];
  const auto run_bytes = static_cast<std::uint64_t>(dims.back().size) * element_bytes_;
  if (dims.size() == 1 && is_run(outer)) return source_.read(place.file, byte_offset, {target, run_bytes});
  const bool long_runs = is_run(dims.back()) && run_bytes >= kDirectRunBytes;
  if (!long_runs && fits_scratch(dims)) return read_span(place, byte_offset, dims, target, span_bytes(dims));

  // as many steps of the outer dimension at once as the scratch buffer takes
  std::int64_t group = 1;
  std::vector<CopyDim> part(dims.begin(), dims.end());
  if (!long_runs) {
    while (group * 2 < outer.size && (part[0].size = group * 2, fits_scratch(part))) group *= 2;
  }
  for (std::int64_t at = 0; at < outer.size; at += group) {
    part[0].size = std::min(group, outer.size - at);
    const auto from = byte_offset + static_cast<std::uint64_t>(at * outer.source_stride) * element_bytes_;
    std::byte* to = target + at * outer.target_stride * static_cast<std::int64_t>(element_bytes_);
    read_sorted(place, from, part[0].size == 1 ? std::span<const CopyDim>(part).subspan(1) : part, to);
  }
}

bool BoxReader::fits_scratch(std::span<const CopyDim> dims) const {
  const std::uint64_t span = span_bytes(dims);
  if (span > scratch_.size()) return false;
  std::uint64_t wanted = element_bytes_;
  for (const CopyDim& dim : dims) wanted *= static_cast<std::uint64_t>(dim.size);
  return span <= kCheapSpanBytes || span / kMaxOverRead <= wanted;
}

std::uint64_t BoxReader::span_bytes(std::span<const CopyDim> dims) const {
  std::uint64_t elements = 1;
  for (const CopyDim& dim : dims) elements += static_cast<std::uint64_t>((dim.size - 1) * dim.source_stride);
  return elements * element_bytes_;
}

void BoxReader::read_span(const ChunkPlace& place, std::uint64_t byte_offset, std::span<const CopyDim> dims,
                          std::byte* target, std::uint64_t span_bytes) {
  source_.read(place.file, byte_offset, scratch_.first(span_bytes));
  strided_copy(target, scratch_.data(), dims, element_bytes_);
}

}  // namespace cairn
