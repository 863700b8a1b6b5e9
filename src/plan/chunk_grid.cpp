// SPDX-License-Identifier: BSD-3-Clause
#include "plan/chunk_grid.hpp"

#include <algorithm>

namespace cairn {
namespace {

constexpr std::uint32_t kNoBox = 0xffffffff;

std::vector<std::int64_t> distinct_starts(std::size_t dim, std::size_t count, const BoxAt& box_at) {
  std::vector<std::int64_t> starts;
  for (std::size_t i = 0; i < count; ++i) {
    const BoxView box = box_at(i);
    if (!box.empty() && (starts.empty() || starts.back() != box.offsets[dim]))
      starts.push_back(box.offsets[dim]);
  }
  std::ranges::sort(starts);
  const auto tail = std::ranges::unique(starts);
  starts.erase(tail.begin(), tail.end());
  return starts;
}

std::size_t cell_of(const std::vector<std::int64_t>& starts, std::int64_t position) {
  return static_cast<std::size_t>(std::ranges::upper_bound(starts, position) - starts.begin()) - 1;
}

/// The same where `near`, a cell, is likely to be it or the one before.
std::size_t cell_of(const std::vector<std::int64_t>& starts, std::int64_t position, std::size_t near) {
  for (const std::size_t cell : {near, near + 1}) {
    if (cell < starts.size() && starts[cell] <= position &&
        (cell + 1 == starts.size() || position < starts[cell + 1])) {
      return cell;
    }
  }
  return cell_of(starts, position);
}

}  // namespace

std::optional<ChunkGrid> ChunkGrid::find(std::span<const std::int64_t> shape, std::size_t count,
                                         const BoxAt& box_at) {
  std::size_t filled = 0;
  for (std::size_t i = 0; i < count; ++i) filled += box_at(i).empty() ? 0 : 1;
  if (filled == 0 || count >= kNoBox) return std::nullopt;

  ChunkGrid grid;
  grid.axes_.resize(shape.size());
  std::size_t cells = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    Axis& axis = grid.axes_[d];
    axis.starts = distinct_starts(d, count, box_at);
    axis.stride = cells;
    if (axis.starts.front() != 0 || axis.starts.size() > filled / cells) return std::nullopt;
    cells *= axis.starts.size();
  }
  if (cells != filled) return std::nullopt;

  grid.cells_.assign(cells, kNoBox);
  std::vector<std::size_t> last(shape.size());
  for (std::size_t i = 0; i < count; ++i) {
    const BoxView box = box_at(i);
    if (box.empty()) continue;
    std::size_t at = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const auto& starts = grid.axes_[d].starts;
      const std::size_t cell = last[d] = cell_of(starts, box.offsets[d], last[d]);
      const std::int64_t end = cell + 1 < starts.size() ? starts[cell + 1] : shape[d];
      if (box.sizes[d] != end - starts[cell]) return std::nullopt;
      at += cell * grid.axes_[d].stride;
    }
    if (grid.cells_[at] != kNoBox) return std::nullopt;
    grid.cells_[at] = static_cast<std::uint32_t>(i);
  }
  return grid;
}

void ChunkGrid::for_each_overlap(BoxView wanted, const std::function<void(std::size_t)>& visit) const {
  if (wanted.empty()) return;
  const std::size_t ndim = axes_.size();
  std::vector<std::size_t> first(ndim), last(ndim);
  for (std::size_t d = 0; d < ndim; ++d) {
    first[d] = cell_of(axes_[d].starts, wanted.offsets[d]);
    last[d] = cell_of(axes_[d].starts, wanted.offsets[d] + wanted.sizes[d] - 1);
  }
  std::vector<std::size_t> at = first;
  for (;;) {
    std::size_t cell = 0;
    for (std::size_t d = 0; d < ndim; ++d) cell += at[d] * axes_[d].stride;
    visit(cells_[cell]);
    std::size_t d = ndim;
    while (d > 0 && at[d - 1] == last[d - 1]) --d, at[d] = first[d];
    if (d == 0) return;
    ++at[d - 1];
  }
}

ChunkIndex::ChunkIndex(std::span<const std::int64_t> shape, std::size_t count, const BoxAt& box_at)
    : grid_(ChunkGrid::find(shape, count, box_at)) {
  if (!grid_) tree_ = BoxTree(shape.size(), count, box_at);
}

void ChunkIndex::for_each_overlap(BoxView wanted, const std::function<void(std::size_t)>& visit) const {
  if (grid_)
    grid_->for_each_overlap(wanted, visit);
  else
    tree_.for_each_overlap(wanted, visit);
}

}  // namespace cairn
