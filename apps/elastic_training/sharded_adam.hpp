// SPDX-License-Identifier: BSD-3-Clause
// Parameters, Adam's moments and an EMA copy, each tensor cut by rows over the ranks as FSDP does it.
#pragma once

#include <ATen/core/Tensor.h>
#include <mpi.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cairn/layout.hpp"

namespace elastic {

struct AdamOptions {
  double learning_rate = 3e-3, beta1 = 0.9, beta2 = 0.99, epsilon = 1e-8, ema = 0.95;
  int warm_up = 10;  ///< steps in which the learning rate rises
};

/// What a rank has of one parameter.
struct ShardedParameter {
  std::string name;
  at::Tensor whole;  ///< the module's, on every rank: valid after gather()
  cairn::TensorLayout layout;
  std::vector<int> elements, first;          ///< of each rank
  at::Tensor weight, mean, square, average;  ///< this rank's rows: parameter, Adam's moments, EMA
  at::Tensor gradient;                       ///< whole, float64: the sum over what this rank has seen
};

class ShardedAdam {
 public:
  /// `parameters`: names and whole tensors, the same on all ranks.
  ShardedAdam(MPI_Comm comm, const AdamOptions& options,
              const std::vector<std::pair<std::string, at::Tensor>>& parameters);

  std::vector<ShardedParameter>& parameters() { return parameters_; }

  /// Collective. Puts the ranks' rows together in the module's parameters.
  void gather();
  /// Local. Adds the module's gradients to the sums, and clears them.
  void take_gradients();
  /// Collective. Adds the sums of all ranks up, divides by `count`, and updates this rank's rows. `step`
  /// counts from 1.
  void update(std::int64_t step, int count);
  /// Local. The EMA begins anew, from the parameters as they are.
  void restart_average();

 private:
  at::Tensor summed_rows(ShardedParameter& parameter);

  MPI_Comm comm_;
  AdamOptions options_;
  int rank_ = 0, ranks_ = 1;
  std::vector<ShardedParameter> parameters_;
};

}  // namespace elastic
