// SPDX-License-Identifier: BSD-3-Clause
// Row: mpi. The ranks of an MPI job. The only public header that includes mpi.h.
#pragma once

#include <mpi.h>

#include <memory>

#include "cairn/communicator.hpp"

namespace cairn {

/// Collective over `comm`. Works on its own duplicate of `comm`, at any thread level the program initialised
/// MPI with; all calls of one communicator come from one thread at a time.
std::unique_ptr<Communicator> mpi_communicator(MPI_Comm comm);

/// MPI_Init_thread (FUNNELED) on construction if MPI is not initialised, MPI_Finalize on destruction if this
/// object initialised it. For programs that are wholly Cairn's, such as the command line. Collective.
class MpiSession {
 public:
  MpiSession(int& argc, char**& argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// MPI_COMM_WORLD.
  std::unique_ptr<Communicator> world();

 private:
  bool owner_;
};

}  // namespace cairn
