// SPDX-License-Identifier: BSD-3-Clause
// Sends and receives of one rank by NCCL, one after the other. Local.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "cairn/device.hpp"
#include "mpi/nccl_session.hpp"

namespace cairn {

class NcclTransfers {
 public:
  /// `session` outlives the object, which outlives its transfers.
  explicit NcclTransfers(NcclSession& session);
  ~NcclTransfers();

  /// As DeviceLink's.
  std::unique_ptr<DeviceLink::Transfer> send(std::span<const std::byte> bytes, int to);
  std::unique_ptr<DeviceLink::Transfer> receive(std::span<std::byte> into, int from);

  /// All transfers that are not done fail; the session is abandoned.
  void break_off() noexcept;

 private:
  class Room;
  class Transfer;
  void advance();
  std::unique_ptr<Room> take_room(std::size_t bytes);

  NcclSession& session_;
  std::deque<Transfer*> waiting_;  // for NCCL to take them up
  bool is_asked_ = false;          // for the first of them
  std::vector<std::unique_ptr<Room>> free_rooms_;
};

}  // namespace cairn
