// SPDX-License-Identifier: BSD-3-Clause
// Which samples a rank reads: a step reads the same ones on any number of ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "cairn/object.hpp"
#include "options.hpp"

namespace elastic {

class Loader {
 public:
  Loader(const Options& options, int rank, int ranks);

  /// This rank's micro-batches of a step: [first(), end()) of options.micro_batches.
  int first() const { return first_; }
  int end() const { return end_; }
  /// Samples of micro-batch `number` of step `step` (from 0): int64, [samples, context + 1].
  at::Tensor tokens(std::int64_t step, int number);

  /// What this rank saves of its own, and takes up again on the same number of ranks.
  cairn::Object state() const;
  void restore(const cairn::Object& state);

 private:
  const Options& options_;
  int first_, end_;
  std::int64_t seen_ = 0;  // samples that this rank has read since the number of ranks changed
};

}  // namespace elastic
