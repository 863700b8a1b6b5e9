// SPDX-License-Identifier: BSD-3-Clause
// Standard output, every write of which counts.
#pragma once

#include <string>
#include <string_view>

namespace cairn {

/// Buffered. A write that fails is an io error. A reader that has gone ends the process at once and silently,
/// by SIGPIPE (a shell sees 141), whatever the disposition of that signal was.
class StandardOutput {
 public:
  void write(std::string_view text);
  /// Flushes and asks for errors that the file system kept back; write() may follow.
  void finish();
  /// A write has failed: nothing more can be said there.
  bool broken() const { return broken_; }

 private:
  void flush();
  [[noreturn]] void fail_write(int error_number);

  std::string buffer_;
  bool broken_ = false;
};

/// Opens /dev/null in place of standard descriptors that were closed at the start, so that no file of a
/// checkpoint gets their numbers; and ignores SIGPIPE and SIGXFSZ: a closed pipe must not end a transfer
/// half-way, and a file that would pass the process's limit is an error like any other.
void prepare_standard_streams();

}  // namespace cairn
