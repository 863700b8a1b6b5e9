// SPDX-License-Identifier: BSD-3-Clause
#include "cairn/error.hpp"

#include <utility>

namespace cairn {

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument:
      return "invalid_argument";
    case ErrorKind::not_found:
      return "not_found";
    case ErrorKind::already_exists:
      return "already_exists";
    case ErrorKind::corrupt:
      return "corrupt";
    case ErrorKind::unsupported:
      return "unsupported";
    case ErrorKind::mismatch:
      return "mismatch";
    case ErrorKind::io:
      return "io";
  }
  return "unknown";
}

Error::Error(ErrorKind kind, std::string message, std::string hint)
    : kind_(kind), message_(std::move(message)), hint_(std::move(hint)) {
  compose();
}

Error& Error::add_context(std::string_view context) {
  message_.insert(0, ": ").insert(0, context);
  compose();
  return *this;
}

Error& Error::add_hint(std::string_view hint) {
  hint_.append(hint_.empty() ? "" : "; ").append(hint);
  compose();
  return *this;
}

Error& Error::set_failures(std::string step, std::vector<RankFailure> failures) {
  step_ = std::move(step);
  failures_ = std::move(failures);
  return *this;
}

void Error::compose() { what_ = hint_.empty() ? message_ : message_ + " (" + hint_ + ")"; }

}  // namespace cairn
