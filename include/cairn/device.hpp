// SPDX-License-Identifier: BSD-3-Clause
// Row: device. Memory of CUDA devices, and devices of ranks that reach each other. Nothing here needs CUDA to
// be installed where Cairn is built: its runtime is loaded by the first call, and where it or the driver is
// missing that call says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "cairn/tensor.hpp"

namespace cairn {

/// Local. The memory of a CUDA device, by the number that CUDA gives it in this process. Copies go through
/// pinned memory, two buffers of 512 KiB and a stream for each thread that copies at once. What the program
/// has queued on the device is to be computed before: cudaDeviceSynchronize().
///
/// Throws unsupported without the CUDA runtime, a driver or the device. The variable CAIRN_CUDART of the
/// environment may name the runtime's file.
std::shared_ptr<DeviceMemory> cuda_memory(int device);

/// Ranks of a job, each with a device, whose devices send to each other without the processors' memory in
/// between. nccl_link() in cairn/mpi.hpp makes one.
class DeviceLink {
 public:
  /// Bytes of a device's memory, at the rank's own address.
  struct Piece {
    std::byte* data;
    std::uint64_t byte_count;
    int root;  ///< the rank that has them
  };

  /// Bytes on their way from one device to another. Giving it up before it is done breaks the link.
  class Transfer {
   public:
    virtual ~Transfer() = default;
    /// Never waits. Throws io when the bytes cannot arrive any more; then the link is of no more use.
    virtual bool is_done() = 0;
  };

  virtual ~DeviceLink() = default;  ///< collective; transfers have ended before
  virtual int size() const = 0;     ///< local; ranks
  /// Local. Whether it is the memory of this rank's device.
  virtual bool reaches(const DeviceMemory& memory) const = 0;
  /// Collective. The root's bytes arrive in everybody's memory. All ranks pass pieces of the same lengths and
  /// roots in one order. When it fails on some rank every rank throws the same Error, io, and later calls do
  /// so too: the link is of no more use.
  virtual void broadcast(std::span<const Piece> pieces) = 0;
  /// Both local, and waiting for nobody. The bytes of this rank's device, which stay as they are until the
  /// transfer is done, arrive in the processor's memory `into` of the other rank, by way of its device. What
  /// one rank sends to another meets what that one receives from it in the order in which they were started,
  /// in equal lengths. Transfers of a rank happen one after the other: two ranks that both wait to receive
  /// before they send wait for ever.
  virtual std::unique_ptr<Transfer> start_send(std::span<const std::byte> bytes, int to) = 0;
  virtual std::unique_ptr<Transfer> start_receive(std::span<std::byte> into, int from) = 0;
};

}  // namespace cairn
