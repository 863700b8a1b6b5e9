// SPDX-License-Identifier: BSD-3-Clause
#include "plan/windows.hpp"

#include <algorithm>

namespace cairn {

Windows::Windows(ByteRange region, std::uint64_t window_bytes)
    : region_(region), window_bytes_(window_bytes), count_(0) {
  if (region.size() > 0) count_ = (region.end - 1) / window_bytes - region.begin / window_bytes + 1;
}

ByteRange Windows::at(std::uint64_t index) const {
  const std::uint64_t first = region_.begin / window_bytes_ * window_bytes_;
  return {std::max(region_.begin, first + index * window_bytes_),
          std::min(region_.end, first + (index + 1) * window_bytes_)};
}

ByteRange Windows::owned(int rank, int size) const {
  const auto r = static_cast<std::uint64_t>(rank), n = static_cast<std::uint64_t>(size);
  const std::uint64_t each = count_ / n, longer = count_ % n;
  const std::uint64_t begin = each * r + std::min(r, longer);
  return {begin, begin + each + (r < longer ? 1 : 0)};
}

}  // namespace cairn
