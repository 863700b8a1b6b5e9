// SPDX-License-Identifier: BSD-3-Clause
#include "base/fail.hpp"
#include "cairn/mpi.hpp"
#include "mpi/call.hpp"
#include "mpi/mpi_communicator.hpp"

namespace cairn {

std::unique_ptr<Communicator> mpi_communicator(MPI_Comm comm) {
  if (!mpi_is_running()) {
    fail(ErrorKind::invalid_argument, "MPI is not running: call MPI_Init before, MPI_Finalize after");
  }
  MPI_Comm own = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(comm, &own), "MPI_Comm_dup");
  return std::make_unique<MpiCommunicator>(own);
}

MpiSession::MpiSession(int& argc, char**& argv) : owner_(false) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized != 0) return;
  int provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  owner_ = true;
}

MpiSession::~MpiSession() {
  if (owner_ && mpi_is_running()) MPI_Finalize();
}

std::unique_ptr<Communicator> MpiSession::world() { return mpi_communicator(MPI_COMM_WORLD); }

}  // namespace cairn
