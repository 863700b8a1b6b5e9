// SPDX-License-Identifier: BSD-3-Clause
// Whether this process is one of several, and how they talk.
#pragma once

#include <memory>
#include <optional>

#include "cairn/communicator.hpp"
#include "command_line.hpp"

namespace cairn {

/// What the environment says about a launcher (mpirun, srun with PMI). A plain batch script has none.
struct Launched {
  bool by_launcher = false;
  int rank = 0;
  std::optional<int> processes = 1;  ///< nullopt: not told

  bool several() const { return processes != 1; }
};
Launched launched();

/// The ranks of this command: those of MPI when a launcher started it or flags.mpi asks for it, else this
/// process alone. Throws invalid_argument when the choice is impossible: MPI asked for and not there, or
/// several processes that cannot talk to each other. Collective.
class World {
 public:
  World(const CommonFlags& flags, const Launched& launched, int& argc, char**& argv);
  ~World();
  Communicator& comm() { return *comm_; }

 private:
  struct Session;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Communicator> comm_;
};

}  // namespace cairn
