// SPDX-License-Identifier: BSD-3-Clause
// From the windows that ranks finish to the journal, while they go on. One writes it, the coordinator:
// appending from several nodes to one file is not safe on network file systems, and a file for each rank
// would leave names behind that depend on their number.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "cairn/communicator.hpp"
#include "checkpoint/journal_file.hpp"
#include "engine/window_log.hpp"

namespace cairn {

class JournalReports {
 public:
  struct Parts {
    Communicator* comm;  ///< of this object alone; null when the coordinator is the only one that writes
    JournalFile* file;   ///< the coordinator's; null elsewhere
    /// Makes durable what this rank has written; empty: that is left out.
    std::function<void()> sync;
    std::chrono::duration<double> interval;  ///< between two reports, unless 1 GiB is finished before
  };
  /// Local.
  explicit JournalReports(Parts parts);
  ~JournalReports();

  /// What the threads of `body` tell of their windows.
  WindowLog& log() { return log_; }
  /// Local, for `body`, now and then, on the thread that called run(). What was finished before the call is
  /// made durable, then reported; the threads go on meanwhile.
  void poll();

  /// All ranks of comm, inside on_all_ranks. Runs `body`, then reports what is left, whether it threw or not;
  /// the coordinator enters what the others report until all of them are done. Throws what `body` threw, else
  /// the first failure in keeping the journal.
  void run(const std::function<void()>& body);

 private:
  struct Peer;
  bool is_due() const;
  void report();
  void receive();
  void finish();
  void attempt(const std::function<void()>& step);

  Parts parts_;
  WindowLog log_;
  std::chrono::steady_clock::time_point reported_ = std::chrono::steady_clock::now();
  std::vector<std::unique_ptr<Peer>> peers_;  // of the coordinator: the others; elsewhere the coordinator
  std::exception_ptr failure_;
};

}  // namespace cairn
