// SPDX-License-Identifier: BSD-3-Clause
#include "cairn/layout.hpp"

#include <algorithm>
#include <numeric>
#include <variant>

#include "base/fail.hpp"

namespace cairn {
namespace {

/// Elements [begin, end) of one dimension.
struct Run {
  std::int64_t begin, end;
};
/// What a rank has of one dimension, in local order.
using Runs = std::vector<Run>;

std::int64_t length(const Runs& runs) {
  std::int64_t sum = 0;
  for (const Run& run : runs) sum += run.end - run.begin;
  return sum;
}

void append(Runs& runs, Run run) {
  if (run.begin == run.end) return;
  if (!runs.empty() && runs.back().end == run.begin)
    runs.back().end = run.end;
  else
    runs.push_back(run);
}

/// Appends what lies at local [begin, end) of `from`.
void append_part(Runs& to, const Runs& from, Run part) {
  std::int64_t at = 0;
  for (const Run& run : from) {
    const std::int64_t next = at + run.end - run.begin;
    const std::int64_t begin = std::max(at, part.begin), end = std::min(next, part.end);
    if (begin < end) append(to, {run.begin + begin - at, run.begin + end - at});
    at = next;
  }
}

/// Piece `index` of `count`, as torch.chunk cuts [begin, end).
Run chunk_of(Run whole, std::int64_t count, std::int64_t index) {
  const std::int64_t size = whole.end - whole.begin;
  const std::int64_t each = size / count + (size % count != 0 ? 1 : 0);
  const std::int64_t first = each == 0 ? 0 : std::min(index, size / each + 1) * each;  // does not overflow
  const std::int64_t begin = std::min(first, size);
  return {whole.begin + begin, whole.begin + begin + std::min(each, size - begin)};
}

/// What place `index` of `count` gets of `runs`.
Runs shard_of(const Runs& runs, const Placement& placement, std::int64_t count, std::int64_t index) {
  const Run whole{0, length(runs)};
  Runs out;
  const std::int64_t pieces = std::min(placement.split_factor, whole.end);  // those beyond are empty
  for (std::int64_t piece = 0; piece < pieces; ++piece)
    append_part(out, runs, chunk_of(chunk_of(whole, placement.split_factor, piece), count, index));
  return out;
}

struct OnMesh {
  Mesh mesh;
  std::vector<Placement> placements;
};
struct BySizes {
  std::size_t dim;
  std::vector<std::int64_t> ends;  // of each rank's part
};
struct Listed {
  std::vector<std::vector<Box>> by_rank;
};

using Dims = std::vector<Runs>;  // one for each dimension

/// nullopt: the rank has no place in the layout.
std::optional<Dims> dims_of(const OnMesh& rule, const TensorLayout::Shape& shape, int rank) {
  const auto place = rule.mesh.coordinates(rank);
  if (!place) return std::nullopt;
  Dims dims;
  for (const std::int64_t size : shape) append(dims.emplace_back(), {0, size});
  for (std::size_t axis = 0; axis < rule.placements.size(); ++axis) {
    const Placement& placement = rule.placements[axis];
    if (placement.kind == Placement::Kind::replicate) continue;
    Runs& runs = dims[placement.dim];
    runs = shard_of(runs, placement, rule.mesh.axis_size(axis), (*place)[axis]);
  }
  return dims;
}

std::optional<Dims> dims_of(const BySizes& rule, const TensorLayout::Shape& shape, int rank) {
  const auto r = static_cast<std::size_t>(rank);
  if (rank < 0 || r >= rule.ends.size()) return std::nullopt;
  Dims dims;
  for (const std::int64_t size : shape) append(dims.emplace_back(), {0, size});
  dims[rule.dim].clear();
  append(dims[rule.dim], {r == 0 ? 0 : rule.ends[r - 1], rule.ends[r]});
  return dims;
}

/// All combinations of runs, the last dimension first to change.
void for_each_product(const Dims& dims, const std::function<void(const OwnedBox&)>& visit) {
  if (std::ranges::any_of(dims, &Runs::empty)) return;
  Box box;
  std::vector<std::int64_t> local(dims.size(), 0);
  std::vector<std::size_t> at(dims.size(), 0);
  for (const Runs& runs : dims) {
    box.offsets.push_back(runs[0].begin);
    box.sizes.push_back(runs[0].end - runs[0].begin);
  }
  for (;;) {
    visit({box, local});
    std::size_t d = dims.size();
    for (; d > 0; --d) {
      const Runs& runs = dims[d - 1];
      const bool wraps = at[d - 1] + 1 == runs.size();
      local[d - 1] = wraps ? 0 : local[d - 1] + box.sizes[d - 1];
      at[d - 1] = wraps ? 0 : at[d - 1] + 1;
      box.offsets[d - 1] = runs[at[d - 1]].begin;
      box.sizes[d - 1] = runs[at[d - 1]].end - runs[at[d - 1]].begin;
      if (!wraps) break;
    }
    if (d == 0) return;
  }
}

void require_shape(const TensorLayout::Shape& shape) {
  if (std::ranges::any_of(shape, [](std::int64_t size) { return size < 0; }))
    fail(ErrorKind::invalid_argument, "layout: shape {} has a negative size", to_string(shape));
}

void require_dim(const TensorLayout::Shape& shape, std::size_t dim) {
  if (dim >= shape.size())
    fail(ErrorKind::invalid_argument, "layout: shape {} has no dimension {} to cut", to_string(shape), dim);
}

}  // namespace

struct TensorLayout::Rule {
  Shape shape;
  std::variant<OnMesh, BySizes, Listed> how;

  std::optional<Dims> dims(int rank) const {
    if (const auto* mesh = std::get_if<OnMesh>(&how)) return dims_of(*mesh, shape, rank);
    if (const auto* sizes = std::get_if<BySizes>(&how)) return dims_of(*sizes, shape, rank);
    fail(ErrorKind::invalid_argument, "layout: listed boxes have no common local tensor");
  }
};

Mesh::Mesh(std::span<const int> shape, int first_rank) : first_rank_(first_rank) {
  std::int64_t stride = 1;
  axes_.resize(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    axes_[axis] = {shape[axis], static_cast<int>(stride)};
    stride *= shape[axis];
    if (shape[axis] < 1 || stride > 0x7fffffff)
      fail(ErrorKind::invalid_argument, "mesh: axis {} of size {}", axis, shape[axis]);
  }
  *this = Mesh(std::move(axes_), first_rank);
}

Mesh::Mesh(std::vector<Axis> axes, int first_rank) : axes_(std::move(axes)), first_rank_(first_rank) {
  by_stride_.resize(axes_.size());
  std::iota(by_stride_.begin(), by_stride_.end(), std::size_t{0});
  std::ranges::stable_sort(by_stride_, [&](std::size_t a, std::size_t b) {
    return std::pair(axes_[a].stride, axes_[a].size) > std::pair(axes_[b].stride, axes_[b].size);
  });
  std::int64_t covered = 1;  // by the axes of smaller strides
  for (std::size_t i = by_stride_.size(); i-- > 0;) {
    const Axis& axis = axes_[by_stride_[i]];
    if (axis.size < 1 || axis.stride < 1 || (axis.size > 1 && axis.stride < covered)) {
      fail(ErrorKind::invalid_argument, "mesh: axis {} of size {} and stride {} over {} ranks", by_stride_[i],
           axis.size, axis.stride, covered);
    }
    if (axis.size > 1) covered = std::int64_t{axis.stride} * axis.size;
  }
}

std::optional<std::vector<int>> Mesh::coordinates(int rank) const {
  std::vector<int> place(axes_.size(), 0);
  std::int64_t rest = std::int64_t{rank} - first_rank_;
  if (rest < 0) return std::nullopt;
  for (const std::size_t axis : by_stride_) {
    if (axes_[axis].size == 1) continue;
    place[axis] = static_cast<int>(std::min<std::int64_t>(rest / axes_[axis].stride, axes_[axis].size - 1));
    rest -= std::int64_t{place[axis]} * axes_[axis].stride;
  }
  if (rest != 0) return std::nullopt;
  return place;
}

TensorLayout TensorLayout::replicated(Shape shape, int ranks) {
  return on_mesh(std::move(shape), Mesh({ranks}), {Placement::replicate()});
}

TensorLayout TensorLayout::sharded(Shape shape, std::size_t dim, int ranks) {
  return on_mesh(std::move(shape), Mesh({ranks}), {Placement::shard(dim)});
}

TensorLayout TensorLayout::sharded(Shape shape, std::size_t dim, std::span<const std::int64_t> sizes) {
  require_shape(shape);
  require_dim(shape, dim);
  BySizes rule{dim, {}};
  std::int64_t end = 0;
  for (const std::int64_t size : sizes) {
    if (size < 0 || size > shape[dim] - end) {
      fail(ErrorKind::invalid_argument, "layout: rank {} has {} of dimension {}, {} of {} are left",
           rule.ends.size(), size, dim, shape[dim] - end, shape[dim]);
    }
    rule.ends.push_back(end += size);
  }
  if (end != shape[dim]) {
    fail(ErrorKind::invalid_argument, "layout: the sizes of dimension {} sum up to {}, not {}", dim, end,
         shape[dim]);
  }
  return TensorLayout(std::make_shared<const Rule>(Rule{std::move(shape), std::move(rule)}));
}

TensorLayout TensorLayout::on_mesh(Shape shape, Mesh mesh, std::vector<Placement> placements) {
  require_shape(shape);
  if (placements.size() != mesh.ndim()) {
    fail(ErrorKind::invalid_argument, "layout: {} placements for a mesh of {} axes", placements.size(),
         mesh.ndim());
  }
  for (const Placement& placement : placements) {
    if (placement.kind == Placement::Kind::replicate) continue;
    require_dim(shape, placement.dim);
    if (placement.split_factor < 1)
      fail(ErrorKind::invalid_argument, "layout: split factor {}", placement.split_factor);
  }
  OnMesh rule{std::move(mesh), std::move(placements)};
  return TensorLayout(std::make_shared<const Rule>(Rule{std::move(shape), std::move(rule)}));
}

TensorLayout TensorLayout::listed(Shape shape, std::vector<std::vector<Box>> boxes_by_rank) {
  require_shape(shape);
  for (std::size_t rank = 0; rank < boxes_by_rank.size(); ++rank) {
    for (const Box& box : boxes_by_rank[rank]) {
      if (!inside(box, shape)) {
        fail(ErrorKind::invalid_argument, "layout: box {} of rank {} does not lie inside {}", to_string(box),
             rank, to_string(shape));
      }
    }
  }
  Listed rule{std::move(boxes_by_rank)};
  return TensorLayout(std::make_shared<const Rule>(Rule{std::move(shape), std::move(rule)}));
}

std::span<const std::int64_t> TensorLayout::shape() const { return rule_->shape; }

void TensorLayout::for_each_box(int rank, const std::function<void(const OwnedBox&)>& visit) const {
  const auto* listed = std::get_if<Listed>(&rule_->how);
  if (listed == nullptr) {
    if (const auto dims = rule_->dims(rank)) for_each_product(*dims, visit);
    return;
  }
  const auto r = static_cast<std::size_t>(rank);
  if (rank < 0 || r >= listed->by_rank.size()) return;
  const std::vector<std::int64_t> start(rule_->shape.size(), 0);
  for (const Box& box : listed->by_rank[r]) {
    if (!BoxView(box).empty()) visit({box, start});
  }
}

std::vector<Box> TensorLayout::boxes(int rank) const {
  std::vector<Box> out;
  for_each_box(rank, [&](const OwnedBox& owned) {
    out.push_back({{owned.box.offsets.begin(), owned.box.offsets.end()},
                   {owned.box.sizes.begin(), owned.box.sizes.end()}});
  });
  return out;
}

TensorLayout::Shape TensorLayout::local_shape(int rank) const {
  const auto dims = rule_->dims(rank);
  if (!dims) return Shape(rule_->shape.size(), 0);
  Shape out;
  for (const Runs& runs : *dims) out.push_back(length(runs));
  return out;
}

}  // namespace cairn
