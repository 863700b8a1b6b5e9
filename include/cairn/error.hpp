// SPDX-License-Identifier: BSD-3-Clause
// Row: base. The one exception class that crosses Cairn's borders.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

/// What went wrong, as a caller needs to tell it apart. On the command line invalid_argument means exit
/// status 2, every other kind 1.
enum class ErrorKind : std::uint8_t {
  invalid_argument,  ///< the caller asked for something that makes no sense
  not_found,         ///< a file or tensor that should be there is not
  already_exists,    ///< an output is in the way
  corrupt,           ///< bytes that break their own format
  unsupported,       ///< a valid thing that Cairn does not read or write
  mismatch,          ///< two things that should agree do not
  io,                ///< the operating system refused
};

/// "invalid_argument", "not_found", ... : the spelling used in JSON.
std::string_view to_string(ErrorKind kind);

/// One rank's part in a failure that all ranks throw together.
struct RankFailure {
  int rank;
  std::string message;
};

/// The message names file, tensor, box, byte offset and both numbers (expected, found). Context is added once
/// per border with add_context(). After a collective failure every rank throws the same Error, with the step
/// and each failing rank's message.
class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message, std::string hint = {});

  ErrorKind kind() const noexcept { return kind_; }
  const std::string& message() const noexcept { return message_; }
  const std::string& hint() const noexcept { return hint_; }
  const std::string& step() const noexcept { return step_; }
  const std::vector<RankFailure>& failures() const noexcept { return failures_; }

  /// Prefixes the message with "context: ".
  Error& add_context(std::string_view context);
  /// Appends "; hint" to the hint.
  Error& add_hint(std::string_view hint);
  /// Marks the error as agreed on by all ranks of a collective step.
  Error& set_failures(std::string step, std::vector<RankFailure> failures);

  /// "message (hint)".
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  void compose();

  ErrorKind kind_;
  std::string message_, hint_, step_, what_;
  std::vector<RankFailure> failures_;
};

}  // namespace cairn
