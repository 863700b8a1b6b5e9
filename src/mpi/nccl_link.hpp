// SPDX-License-Identifier: BSD-3-Clause
// Devices of an MPI job's ranks that reach each other by NCCL. NCCL waits for all ranks and does not notice
// that one has failed: so nothing of it is waited for without MPI telling of failures meanwhile.
#pragma once

#include <memory>

#include "cairn/communicator.hpp"
#include "cairn/device.hpp"
#include "device/cuda_memory.hpp"
#include "mpi/nccl_calls.hpp"

namespace cairn {

/// Collective, as nccl_link(). `nccl` outlives the link.
std::unique_ptr<DeviceLink> make_nccl_link(Communicator& comm, const NcclCalls& nccl,
                                           std::shared_ptr<CudaMemory> memory);

}  // namespace cairn
