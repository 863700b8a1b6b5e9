// SPDX-License-Identifier: BSD-3-Clause
// How the bytes of an output are shared out: windows of the payload region, each with one owner. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

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

class WindowRuns;

/// Cuts a region at the multiples of `window_bytes` in file offsets. Independent of the number of ranks.
class Windows {
 public:
  /// `window_bytes` is a power of two, at least 64 (no element of a tensor is cut by a window then).
  Windows(ByteRange region, std::uint64_t window_bytes);

  std::uint64_t count() const { return count_; }
  ByteRange at(std::uint64_t index) const;
  std::uint64_t bytes(const WindowRuns& some) const;

 private:
  ByteRange region_;
  std::uint64_t window_bytes_, count_;
};

/// Windows [begin, end), by their numbers.
struct WindowRun {
  std::uint64_t begin, end;
};

/// Some of the windows, in order.
class WindowRuns {
 public:
  WindowRuns() = default;
  /// The first `count` windows, but for those in `without`: runs in any order, not empty, apart, below
  /// `count`.
  explicit WindowRuns(std::uint64_t count, std::vector<WindowRun> without = {});

  std::uint64_t count() const { return ends_.empty() ? 0 : ends_.back(); }
  /// The number of the window that is the `index`-th of these.
  std::uint64_t operator[](std::uint64_t index) const;
  const std::vector<WindowRun>& runs() const { return runs_; }

  /// Those that `rank` of `size` owns: contiguous among these, and even by bytes to within one window.
  WindowRuns share(int rank, int size) const;
  void add(WindowRun run);  ///< behind all others

 private:
  std::vector<WindowRun> runs_;
  std::vector<std::uint64_t> ends_;  // windows up to the end of each run
};

}  // namespace cairn
