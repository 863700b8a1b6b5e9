// SPDX-License-Identifier: BSD-3-Clause
// Row: device. Memory of CUDA devices. Nothing here needs CUDA to be installed where Cairn is built: its
// runtime is loaded by the first call, and where it or the driver is missing that call says so.
#pragma once

#include <memory>

#include "cairn/tensor.hpp"

namespace cairn {

/// Local. The memory of a CUDA device, by the number that CUDA gives it in this process. Copies go through
/// pinned memory, two buffers of 512 KiB and a stream for each thread that copies at once. What the program
/// has queued on the device is to be computed before: cudaDeviceSynchronize().
///
/// Throws unsupported without the CUDA runtime, a driver or the device. The variable CAIRN_CUDART of the
/// environment may name the runtime's file.
std::shared_ptr<DeviceMemory> cuda_memory(int device);

}  // namespace cairn
