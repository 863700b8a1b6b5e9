// SPDX-License-Identifier: BSD-3-Clause
// One training job on the ranks of a communicator, and its checkpoints.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "cairn/communicator.hpp"
#include "cairn/torch.hpp"
#include "cairn/training.hpp"
#include "loader.hpp"
#include "model.hpp"
#include "options.hpp"
#include "sharded_adam.hpp"

namespace elastic {

/// The components of an iteration, as views of what the job has.
struct JobState {
  explicit JobState(const cairn::Communicator& comm)
      : model(comm), optim(comm), scheduler(comm), trainer(comm) {}

  cairn::TorchState model, optim, scheduler, trainer;
};

class Job {
 public:
  /// Collective, as everything here.
  Job(MPI_Comm ranks, cairn::Communicator& comm, const Options& options);

  /// The newest complete iteration, options.start_from, or a beginning.
  cairn::ResumeReport resume();
  std::int64_t steps_done() const { return steps_done_; }
  /// One step; the mean loss of its samples, before it.
  double step();

  cairn::IterationReport save();
  cairn::AsyncIteration start_save();

 private:
  std::vector<cairn::SavedComponent> prepared(JobState& state);
  void describe(JobState& state);
  void describe_parameter(JobState& state, const ShardedParameter& parameter);
  static void require_same(const char* what, const cairn::Object& saved, std::int64_t now);
  void take(const JobState& state, const cairn::ResumeReport& report);
  double mean_of_all(const std::vector<double>& losses) const;

  MPI_Comm ranks_;
  cairn::Communicator& comm_;
  const Options& options_;
  Model model_;
  ShardedAdam adam_;
  Loader loader_;
  cairn::TrainingCheckpoints checkpoints_;
  std::int64_t steps_done_ = 0;
  at::Tensor step_count_;  ///< steps_done_, as torch's Adam keeps it with every parameter
};

}  // namespace elastic
