// SPDX-License-Identifier: BSD-3-Clause
// Row: parallel. Being told to leave: what a scheduler sends a job before it takes the machines away.
#pragma once

#include <csignal>
#include <utility>
#include <vector>

#include "cairn/communicator.hpp"

namespace cairn {

/// With what a job exits that has saved and left because it was told to: EX_TEMPFAIL of sysexits.h, so that a
/// scheduler's script can tell it from an end and from a failure, and start the job again.
inline constexpr int kPreemptedStatus = 75;

/// While it lives, the signals only set a mark. One at a time in a process; made in the program's first
/// thread, before others start. A signal that the process was started to ignore counts as well.
///
/// How signals reach ranks: Slurm's `--signal=USR1@120` sends them to every rank of a step; Open MPI's mpirun
/// passes SIGUSR1 on, but at its own SIGTERM kills the ranks within a second.
class PreemptionNotice {
 public:
  /// Local. Throws invalid_argument where another one lives, or a signal cannot be caught.
  explicit PreemptionNotice(const std::vector<int>& signals = {SIGTERM, SIGUSR1});
  /// Local. What the signals did before they do again.
  ~PreemptionNotice();
  PreemptionNotice(const PreemptionNotice&) = delete;
  PreemptionNotice& operator=(const PreemptionNotice&) = delete;

  /// Local. Whether this rank was sent one of them; once true, it stays so.
  bool received() const;
  /// Collective. Whether any rank was, by now: the same on all, so that all leave after the same step.
  bool received_by_any(Communicator& comm) const;

 private:
  void restore();

  std::vector<std::pair<int, struct sigaction>> before_;
};

}  // namespace cairn
