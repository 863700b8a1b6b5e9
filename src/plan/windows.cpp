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

std::uint64_t Windows::bytes(const WindowRuns& some) const {
  std::uint64_t sum = 0;
  for (const auto& [begin, end] : some.runs()) sum += at(end - 1).end - at(begin).begin;
  return sum;
}

WindowRuns::WindowRuns(std::uint64_t count, std::vector<WindowRun> without) {
  std::ranges::sort(without, {}, &WindowRun::begin);
  std::uint64_t next = 0;
  for (const WindowRun& run : without) {
    add({next, run.begin});
    next = run.end;
  }
  add({next, count});
}

void WindowRuns::add(WindowRun run) {
  if (run.begin >= run.end) return;
  ends_.push_back(count() + (run.end - run.begin));
  runs_.push_back(run);
}

std::uint64_t WindowRuns::operator[](std::uint64_t index) const {
  const auto run = static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
  return runs_[run].end - (ends_[run] - index);
}

WindowRuns WindowRuns::share(int rank, int size) const {
  const auto r = static_cast<std::uint64_t>(rank), n = static_cast<std::uint64_t>(size);
  const std::uint64_t each = count() / n, longer = count() % n;
  const std::uint64_t begin = each * r + std::min(r, longer), end = begin + each + (r < longer ? 1 : 0);
  WindowRuns mine;
  std::uint64_t first = 0;  // of the run, among all
  for (std::size_t i = 0; i < runs_.size(); first = ends_[i++]) {
    const std::uint64_t from = std::max(begin, first), to = std::min(end, ends_[i]);
    if (from < to) mine.add({runs_[i].begin + (from - first), runs_[i].begin + (to - first)});
  }
  return mine;
}

}  // namespace cairn
