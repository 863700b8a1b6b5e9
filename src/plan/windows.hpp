// SPDX-License-Identifier: BSD-3-Clause
// How the bytes of an output are shared out: windows of the payload region, each with one owner. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace cairn {

/// Bytes [begin, end) of the output file.
struct ByteRange {
  std::uint64_t begin, end;
  std::uint64_t size() const { return end - begin; }
};

/// What of `range` lies in `window`; empty, at a border of the window, when nothing does.
constexpr ByteRange clip(ByteRange range, ByteRange window) {
  const std::uint64_t begin = std::clamp(range.begin, window.begin, window.end);
  return {begin, std::clamp(range.end, begin, window.end)};
}

/// Cuts a region at the multiples of `window_bytes` in file offsets. Independent of the number of ranks.
class Windows {
 public:
  /// `window_bytes` is a power of two, at least 64 (no element of a tensor is cut by a window then).
  Windows(ByteRange region, std::uint64_t window_bytes);

  std::uint64_t count() const { return count_; }
  ByteRange at(std::uint64_t index) const;

  /// The windows [begin, end) that `rank` of `size` owns: contiguous, and even by bytes to within one window.
  ByteRange owned(int rank, int size) const;

 private:
  ByteRange region_;
  std::uint64_t window_bytes_, count_;
};

}  // namespace cairn
