// SPDX-License-Identifier: BSD-3-Clause
// MPI calls as functions that throw.
#pragma once

#include <mpi.h>

namespace cairn {

/// Throws io with MPI's own text unless `code` is MPI_SUCCESS.
void check_mpi(int code, const char* call);

/// Between MPI_Init and MPI_Finalize: only then may MPI be called.
bool mpi_is_running();

}  // namespace cairn
