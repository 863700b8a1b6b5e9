// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/mpi_request.hpp"

#include "base/fail.hpp"
#include "mpi/call.hpp"
#include "parallel/polling.hpp"

namespace cairn {

bool MpiRequest::test() {
  if (request_ == MPI_REQUEST_NULL) return true;
  int done = 0;
  MPI_Status status;
  check_mpi(MPI_Test(&request_, &done, &status), "MPI_Test");
  if (done != 0) completed(status);
  return done != 0;
}

void MpiRequest::wait() { wait_by_polling(*this, for_transfers); }

// The buffers may go with this object, so MPI must be through with them.
MpiRequest::~MpiRequest() {
  Backoff backoff(for_transfers);
  while (request_ != MPI_REQUEST_NULL && mpi_is_running()) {
    int done = 0;
    if (MPI_Test(&request_, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0) return;
    backoff.pause();
  }
}

void ReceiveRequest::completed(const MPI_Status& status) {
  int received_bytes = 0;
  check_mpi(MPI_Get_count(&status, MPI_BYTE, &received_bytes), "MPI_Get_count");
  if (received_bytes != expected_bytes_) {
    fail(ErrorKind::io, "a message of {} bytes was expected from rank {}, {} came", expected_bytes_,
         status.MPI_SOURCE, received_bytes);
  }
}

}  // namespace cairn
