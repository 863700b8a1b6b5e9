// SPDX-License-Identifier: BSD-3-Clause
// Row: plan. Layouts: which boxes of a tensor each rank owns. Local, pure. All errors are invalid_argument.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cairn/box.hpp"

namespace cairn {

/// Ranks as an N-dimensional array: rank = first_rank + sum of coordinate * stride. Strides other than
/// row-major ones make a part of a larger mesh, as a slice of PyTorch's DeviceMesh is.
class Mesh {
 public:
  struct Axis {
    int size;
    int stride = 1;  ///< in ranks
  };

  /// Row-major over first_rank, first_rank + 1, ... Every size is at least 1.
  explicit Mesh(std::span<const int> shape, int first_rank = 0);
  Mesh(std::initializer_list<int> shape, int first_rank = 0)
      : Mesh(std::span(shape.begin(), shape.size()), first_rank) {}
  /// Strides as they come. Each axis steps over the whole of those with smaller strides: one rank, one place.
  explicit Mesh(std::vector<Axis> axes, int first_rank = 0);

  std::size_t ndim() const { return axes_.size(); }
  int axis_size(std::size_t axis) const { return axes_[axis].size; }
  /// One coordinate for each axis; nullopt for a rank that is not in the mesh.
  std::optional<std::vector<int>> coordinates(int rank) const;

 private:
  std::vector<Axis> axes_;
  std::vector<std::size_t> by_stride_;  // axes, largest stride first
  int first_rank_;
};

/// What one axis of the mesh does to a tensor, in the words of PyTorch's DTensor.
struct Placement {
  enum class Kind : std::uint8_t { replicate, shard, strided_shard };

  Kind kind = Kind::replicate;
  std::size_t dim = 0;            ///< of the tensor
  std::int64_t split_factor = 1;  ///< of strided_shard

  static Placement replicate() { return {}; }
  /// As torch.chunk cuts: all pieces of ceil(size / ranks) but the last ones, which are smaller or empty.
  static Placement shard(std::size_t dim) { return {Kind::shard, dim, 1}; }
  /// FSDP2 over tensor parallelism: as if the dimension were first cut into `split_factor` pieces, by an axis
  /// further right, and each of them among the ranks of this axis.
  static Placement strided_shard(std::size_t dim, std::int64_t split_factor) {
    return {Kind::strided_shard, dim, split_factor};
  }
};

/// A box that a rank owns, and where it lies in the tensor the rank holds. Where boxes are listed each one is
/// a tensor of its own, at 0.
struct OwnedBox {
  BoxView box;                                  ///< global
  std::span<const std::int64_t> local_offsets;  ///< in the rank's local tensor
};

/// Which boxes of one tensor each rank owns. Immutable; copies share it, so replicas and tensors of one shape
/// can. Memory does not grow with the number of ranks, but where sizes or boxes are listed rank by rank. A
/// rank that the layout does not name owns nothing.
class TensorLayout {
 public:
  using Shape = std::vector<std::int64_t>;

  /// The whole tensor on ranks 0 … ranks - 1.
  static TensorLayout replicated(Shape shape, int ranks);
  /// Cut along one dimension, evenly as Placement::shard() says.
  static TensorLayout sharded(Shape shape, std::size_t dim, int ranks);
  /// Cut along one dimension; rank r has sizes[r], which may be 0. They sum up to the dimension.
  static TensorLayout sharded(Shape shape, std::size_t dim, std::span<const std::int64_t> sizes);
  /// One placement for each axis of the mesh, carried out from left to right. Where strided pieces are uneven
  /// a rank may own several boxes, which lie one after the other in its local tensor.
  static TensorLayout on_mesh(Shape shape, Mesh mesh, std::vector<Placement> placements);
  /// The boxes of each rank, all inside `shape`.
  static TensorLayout listed(Shape shape, std::vector<std::vector<Box>> boxes_by_rank);

  std::span<const std::int64_t> shape() const;
  /// Visits the boxes of a rank that are not empty, in the order in which they lie in its local tensor. Views
  /// are valid during the call only.
  void for_each_box(int rank, const std::function<void(const OwnedBox&)>& visit) const;
  std::vector<Box> boxes(int rank) const;
  /// Of the tensor that a rank holds; all 0 where it owns no place in the layout. Not for listed boxes.
  Shape local_shape(int rank) const;

 private:
  struct Rule;
  explicit TensorLayout(std::shared_ptr<const Rule> rule) : rule_(std::move(rule)) {}

  std::shared_ptr<const Rule> rule_;
};

}  // namespace cairn
