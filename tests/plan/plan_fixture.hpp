// SPDX-License-Identifier: BSD-3-Clause
// States in all kinds of layouts, and what plans do to elements that know their place.
#pragma once

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "cairn/plan.hpp"

namespace cairn {

inline std::int64_t linear(std::span<const std::int64_t> shape, std::span<const std::int64_t> at) {
  std::int64_t out = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) out = out * shape[d] + at[d];
  return out;
}

/// Visits the coordinates of a box, row-major.
template <class Visit>
void for_each_element(BoxView box, Visit&& visit) {
  if (box.empty()) return;
  std::vector<std::int64_t> at(box.offsets.begin(), box.offsets.end());
  for (;;) {
    visit(at);
    std::size_t d = at.size();
    while (d > 0 && ++at[d - 1] == box.offsets[d - 1] + box.sizes[d - 1]) {
      at[d - 1] = box.offsets[d - 1];
      --d;
    }
    if (d == 0) return;
  }
}

/// One of the ways in which a tensor can lie on `ranks` ranks: even, uneven, columns, meshes with replicas,
/// strided, listed, replicated.
inline TensorLayout random_layout(std::mt19937& random, const std::vector<std::int64_t>& shape, int ranks) {
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  if (shape.empty() || below(7) == 0) return TensorLayout::replicated(shape, ranks);
  const std::size_t dim = below(shape.size());
  switch (below(5)) {
    case 0:
      return TensorLayout::sharded(shape, dim, ranks);
    case 1: {
      std::vector<std::int64_t> sizes(static_cast<std::size_t>(ranks), 0);
      for (std::int64_t i = 0; i < shape[dim]; ++i) ++sizes[below(sizes.size())];
      return TensorLayout::sharded(shape, dim, sizes);
    }
    case 2: {
      std::vector<std::vector<Box>> boxes(static_cast<std::size_t>(ranks));
      Box row{std::vector<std::int64_t>(shape.size(), 0), shape};
      row.sizes[dim] = 1;
      for (; row.offsets[dim] < shape[dim]; ++row.offsets[dim]) boxes[below(boxes.size())].push_back(row);
      return TensorLayout::listed(shape, boxes);
    }
    default: {
      int inner = 1;
      for (int i = 1; i <= ranks; ++i) {
        if (ranks % i == 0 && below(2) == 0) inner = i;
      }
      const std::size_t other = below(shape.size());
      const Placement outer[] = {Placement::strided_shard(dim, inner), Placement::shard(dim),
                                 Placement::replicate()};
      return TensorLayout::on_mesh(shape, Mesh({ranks / inner, inner}),
                                   {outer[below(3)], Placement::shard(below(2) == 0 ? dim : other)});
    }
  }
}

/// Some tensors and objects over some ranks. The content of a tensor is its elements' linear indices.
class RandomState {
 public:
  struct Tensor {
    std::string name;
    DType dtype;
    std::vector<std::int64_t> shape;
  };

  RandomState(std::mt19937& random, int ranks) : ranks_(ranks) {
    for (int i = 0; i < 6; ++i) {
      std::vector<std::int64_t> shape;
      for (std::size_t d = random() % 4; d > 0; --d)
        shape.push_back(random() % 12 == 0 ? 0 : 1 + static_cast<std::int64_t>(random() % 9));
      tensors_.push_back({"t" + std::to_string(i), random() % 2 == 0 ? DType::float32 : DType::uint8, shape});
    }
    lay_out(random, ranks);
  }

  /// The same tensors, anew on another number of ranks.
  void lay_out(std::mt19937& random, int ranks) {
    ranks_ = ranks;
    layouts_.clear();
    for (const Tensor& tensor : tensors_) layouts_.push_back(random_layout(random, tensor.shape, ranks));
  }

  const std::vector<Tensor>& tensors() const { return tensors_; }
  RankState of_rank(int rank) const {
    RankState state(rank);
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      state.add_tensor(tensors_[i].name, tensors_[i].dtype, layouts_[i]);
      state.add_object("o" + std::to_string(i), 10 * i);
    }
    return state;
  }
  std::vector<RankState> of_all_ranks() const {
    std::vector<RankState> out;
    for (int rank = 0; rank < ranks_; ++rank) out.push_back(of_rank(rank));
    return out;
  }
  /// How often each element should be written, by tensor: once.
  std::map<std::string, std::vector<int>> all_elements() const {
    std::map<std::string, std::vector<int>> out;
    for (const Tensor& tensor : tensors_)
      out[tensor.name].assign(static_cast<std::size_t>(element_count(tensor.shape)), 1);
    return out;
  }

 private:
  int ranks_;
  std::vector<Tensor> tensors_;
  std::vector<TensorLayout> layouts_;
};

/// How often each element is written, by tensor.
inline std::map<std::string, std::vector<int>> saved_elements(const GlobalSavePlan& plan,
                                                              const std::vector<RankState>& states) {
  std::map<std::string, std::vector<int>> out;
  for (std::size_t rank = 0; rank < states.size(); ++rank) {
    for (const WriteItem& item : plan.parts[rank].items()) {
      const RankState& state = states[rank];
      if (!state.is_tensor(item.entry)) continue;
      auto& counts = out[std::string(state.name(item.entry))];
      counts.resize(static_cast<std::size_t>(element_count(state.shape(item.entry))), 0);
      for_each_element(plan.parts[rank].box(state, item), [&](const std::vector<std::int64_t>& at) {
        ++counts[static_cast<std::size_t>(linear(state.shape(item.entry), at))];
      });
    }
  }
  return out;
}

}  // namespace cairn
