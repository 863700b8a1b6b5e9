// SPDX-License-Identifier: BSD-3-Clause
#include "formats/output_layout.hpp"

namespace cairn {

std::uint64_t OutputLayout::record_at(std::uint64_t byte_offset) const {
  std::uint64_t low = 0, high = record_count();  // extents are sorted and touch each other
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (extent(middle).begin <= byte_offset)
      low = middle;
    else
      high = middle;
  }
  return low;
}

}  // namespace cairn
