// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "model.hpp"
#include "sharded_adam.hpp"

namespace elastic {

struct Options {
  std::string directory;  ///< of the job's iterations
  int steps = 100;        ///< after which the job is done
  int save_every = 10;
  int keep_last = 3, keep_every = 0;
  std::string start_from;
  bool weights_only = false;  ///< of start_from
  bool blocking = false;      ///< the job waits for each save
  bool sync = true;           ///< saves are durable
  bool save_when_told_to_leave = true;
  std::uint64_t staging_mib = 1024;
  int micro_batches = 24, micro_size = 2;  ///< of a step, over all ranks; samples of one
  std::uint64_t seed = 1;
  ModelShape model;
  AdamOptions adam;
};

}  // namespace elastic
