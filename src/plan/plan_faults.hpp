// SPDX-License-Identifier: BSD-3-Clause
// Several faults in one error. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/fail.hpp"

namespace cairn {

/// Collects sentences; the first ten are shown.
class PlanFaults {
 public:
  template <class... Args>
  void add(fmt::format_string<Args...> text, Args&&... args) {
    if (++count_ <= kShown) sentences_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }
  std::size_t count() const { return count_; }
  /// Throws mismatch when there are any.
  void throw_if_any(std::string_view what) const {
    if (count_ == 0) return;
    std::string message = fmt::format("{}: {} fault{}", what, count_, count_ == 1 ? "" : "s");
    for (const std::string& sentence : sentences_)
      message += (&sentence == &sentences_.front() ? ": " : "; ") + sentence;
    if (count_ > kShown) message += fmt::format("; and {} more", count_ - kShown);
    throw Error(ErrorKind::mismatch, std::move(message));
  }

 private:
  static constexpr std::size_t kShown = 10;

  std::size_t count_ = 0;
  std::vector<std::string> sentences_;
};

}  // namespace cairn
