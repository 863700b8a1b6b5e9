// SPDX-License-Identifier: BSD-3-Clause
#include "plan/merged_read.hpp"

#include <algorithm>

namespace cairn {

MergedRead first_merged_read(std::span<const FileRange> sorted, MergeLimits limits) {
  MergedRead read{1, sorted.front()};
  for (const FileRange& next : sorted.subspan(1)) {
    if (next.file != read.span.file) break;
    if (next.begin > read.span.end() && next.begin - read.span.end() > limits.gap_bytes) break;
    const std::uint64_t bytes = std::max(read.span.end(), next.end()) - read.span.begin;
    if (bytes > limits.read_bytes) break;
    read.span.bytes = bytes;
    ++read.count;
  }
  return read;
}

}  // namespace cairn
