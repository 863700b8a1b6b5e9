// SPDX-License-Identifier: BSD-3-Clause
// Bytes of any length between two ranks, in steps that wait for nobody. Local.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "cairn/communicator.hpp"

namespace cairn {

inline constexpr std::size_t kMessageBytes = std::size_t{1} << 30;

using Requests = std::vector<std::unique_ptr<Request>>;

/// Calls `start` for each message that these bytes are cut into.
template <class Byte, class Start>
void for_each_message(std::span<Byte> bytes, Requests& requests, Start&& start) {
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), kMessageBytes)))
    requests.push_back(start(bytes.first(std::min(bytes.size(), kMessageBytes))));
}

/// Letters from one rank to another with one tag arrive in the order in which they were made. Nothing is sent
/// or received before the first step(): that and later ones are of the communicator's thread.
class OutgoingLetter {
 public:
  OutgoingLetter(Communicator& comm, Bytes bytes, int to, int tag);
  /// True once it has gone, and from then on.
  bool step();

 private:
  Communicator& comm_;
  Bytes length_, bytes_;
  int to_, tag_;
  bool is_started_ = false;
  Requests requests_;
};

class IncomingLetter {
 public:
  IncomingLetter(Communicator& comm, int from, int tag);
  /// True once it is there, and from then on. Throws io when there is no room for it.
  bool step();
  Bytes take() { return std::move(bytes_); }

 private:
  enum class Stage { nothing, length, bytes };

  Communicator& comm_;
  Bytes length_, bytes_;
  int from_, tag_;
  Stage stage_ = Stage::nothing;
  Requests requests_;
};

}  // namespace cairn
