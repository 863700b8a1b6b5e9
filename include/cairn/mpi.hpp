// SPDX-License-Identifier: BSD-3-Clause
// Row: mpi. The ranks of an MPI job, and their devices. The only public header that includes mpi.h.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>

#include "cairn/communicator.hpp"
#include "cairn/device.hpp"

namespace cairn {

/// Collective over `comm`. Works on its own duplicate of `comm`, at any thread level the program initialised
/// MPI with; all calls of one communicator come from one thread at a time.
std::unique_ptr<Communicator> mpi_communicator(MPI_Comm comm);

enum class UseNccl : std::uint8_t {
  automatic,  ///< where all ranks can
  on,
  off,
};

/// Collective; `use` must agree, else invalid_argument. Links the devices of all ranks by NCCL (2.14 or
/// later), which is loaded now; the variable CAIRN_NCCL of the environment may name its file. `memory`: this
/// rank's device, from cuda_memory(). All calls of the link come from one thread at a time.
///
/// Where NCCL is missing on a rank (unsupported), or does not come to work (io), every rank throws the same
/// Error; under `automatic` they return nullptr instead, and `why_not`, if given, gets its words. nullptr
/// under `off`. LoadOptions::device_link takes either.
std::unique_ptr<DeviceLink> nccl_link(Communicator& comm, std::shared_ptr<DeviceMemory> memory,
                                      UseNccl use = UseNccl::automatic, std::string* why_not = nullptr);

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
