// SPDX-License-Identifier: BSD-3-Clause
// What a thread does beside waiting. MPI may be for the main thread only, and that thread waits much: for
// other ranks, for its own threads. Whoever has something to do there now and then (carry reports, look for
// ranks that are stuck) attends that thread. Local.
#pragma once

#include <chrono>

namespace cairn {

/// The shortest time between two calls of Attendant::attend().
inline constexpr std::chrono::milliseconds kAttendInterval(250);

class Attendant {
 public:
  virtual ~Attendant() = default;
  /// Called on the attended thread while it waits. Waits for nobody; whatever fails stays inside.
  virtual void attend() noexcept = 0;
};

/// While it lives, `attendant` attends the calling thread. One at a time; a second is not called.
class Attended {
 public:
  explicit Attended(Attendant& attendant);
  ~Attended();
  Attended(const Attended&) = delete;
  Attended& operator=(const Attended&) = delete;

 private:
  bool is_first_;
};

/// For loops that wait on the calling thread: calls its attendant, if it has one and kAttendInterval has
/// passed. Never from inside of attend().
void attend() noexcept;

/// While it lives, the calling thread works, or waits for threads of its own; else it waits for other ranks.
class AtWork {
 public:
  AtWork();
  ~AtWork();
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;
};
/// Of the calling thread.
bool is_at_work();

}  // namespace cairn
