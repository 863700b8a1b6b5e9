// SPDX-License-Identifier: BSD-3-Clause
#include "sharded_adam.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace elastic {

ShardedAdam::ShardedAdam(MPI_Comm comm, const AdamOptions& options,
                         const std::vector<std::pair<std::string, at::Tensor>>& parameters)
    : comm_(comm), options_(options) {
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &ranks_);
  for (const auto& [name, whole] : parameters) {
    auto layout = cairn::TensorLayout::sharded(whole.sizes().vec(), 0, ranks_);
    ShardedParameter here{name, whole, layout, {}, {}, {}, {}, {}, {}, {}};
    const auto row = whole.numel() / whole.size(0);
    std::int64_t first_row = 0, first = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::int64_t rows = layout.local_shape(rank)[0];
      if (rank < rank_) first_row += rows;
      here.first.push_back(static_cast<int>(first));
      here.elements.push_back(static_cast<int>(rows * row));
      first += rows * row;
    }
    here.weight = whole.detach().narrow(0, first_row, layout.local_shape(rank_)[0]).clone();
    here.mean = at::zeros_like(here.weight);
    here.square = at::zeros_like(here.weight);
    here.average = here.weight.clone();
    here.gradient = at::zeros(whole.sizes(), at::kDouble);
    parameters_.push_back(std::move(here));
  }
}

void ShardedAdam::gather() {
  for (ShardedParameter& here : parameters_)
    MPI_Allgatherv(here.weight.const_data_ptr(), static_cast<int>(here.weight.numel()), MPI_FLOAT,
                   here.whole.mutable_data_ptr(), here.elements.data(), here.first.data(), MPI_FLOAT, comm_);
}

void ShardedAdam::take_gradients() {
  for (ShardedParameter& here : parameters_) {
    here.gradient.add_(here.whole.grad());
    here.whole.mutable_grad() = at::Tensor();
  }
}

// This rank's rows of the sum over all ranks: in the order of the ranks, so that no run differs from another.
at::Tensor ShardedAdam::summed_rows(ShardedParameter& here) {
  const int mine = here.elements[static_cast<std::size_t>(rank_)];
  const std::vector<int> counts(static_cast<std::size_t>(ranks_), mine);
  std::vector<int> places;
  for (int rank = 0; rank < ranks_; ++rank) places.push_back(rank * mine);
  at::Tensor of_ranks = at::empty({ranks_, mine}, at::kDouble);
  MPI_Alltoallv(here.gradient.const_data_ptr(), here.elements.data(), here.first.data(), MPI_DOUBLE,
                of_ranks.mutable_data_ptr(), counts.data(), places.data(), MPI_DOUBLE, comm_);
  here.gradient.zero_();
  at::Tensor sum = at::zeros({mine}, at::kDouble);
  for (int rank = 0; rank < ranks_; ++rank) sum.add_(of_ranks[rank]);
  return sum.view(here.weight.sizes());
}

// The gradients are summed in float64 and rounded once: another number of ranks adds them in another order,
// which the rounding all but hides.
void ShardedAdam::update(std::int64_t step, int count) {
  const auto at = static_cast<double>(step);
  const double rate = options_.learning_rate * std::min(1.0, at / options_.warm_up);
  for (ShardedParameter& here : parameters_) {
    const at::Tensor gradient = (summed_rows(here) / count).to(at::kFloat);
    here.mean.mul_(options_.beta1).add_(gradient, 1 - options_.beta1);
    here.square.mul_(options_.beta2).addcmul_(gradient, gradient, 1 - options_.beta2);
    const at::Tensor mean = here.mean / (1 - std::pow(options_.beta1, at));
    const at::Tensor square = here.square / (1 - std::pow(options_.beta2, at));
    here.weight.addcdiv_(mean, square.sqrt_().add_(options_.epsilon), -rate);
    here.average.mul_(options_.ema).add_(here.weight, 1 - options_.ema);
  }
}

void ShardedAdam::restart_average() {
  for (ShardedParameter& here : parameters_) here.average.copy_(here.weight);
}

}  // namespace elastic
