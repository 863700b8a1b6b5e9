// SPDX-License-Identifier: BSD-3-Clause
// How far a transfer is, on standard error.
#pragma once

#include <chrono>
#include <string>

#include "cairn/checkpoint.hpp"

namespace cairn {

enum class ProgressForm { none, bar, lines };
/// `choice` is auto, always or never; throws invalid_argument otherwise. A bar needs a terminal.
ProgressForm progress_form(const std::string& choice);

/// A bar that is redrawn, or a line every few seconds. The destructor takes the bar away. Called from one
/// thread at a time.
class ProgressDisplay {
 public:
  explicit ProgressDisplay(ProgressForm form);
  ~ProgressDisplay();
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  void show(const Progress& progress);
  /// Takes the bar away: something else is to be said.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  double rate(const Progress& progress);

  ProgressForm form_;
  Clock::time_point begin_ = Clock::now(), last_line_ = begin_;
  std::uint64_t begin_bytes_ = 0, last_bytes_ = 0;
  bool begun_ = false, drawn_ = false;
};

}  // namespace cairn
