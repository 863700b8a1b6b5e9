// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/call.hpp"

#include <string_view>

#include "base/fail.hpp"

namespace cairn {

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail(ErrorKind::io, "{} failed: {}", call, std::string_view(text, static_cast<std::size_t>(length)));
}

bool mpi_is_running() {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized != 0 && finalized == 0;
}

}  // namespace cairn
