// SPDX-License-Identifier: BSD-3-Clause
#include "standard_output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/fail.hpp"

namespace cairn {
namespace {

constexpr std::size_t kBufferBytes = 64 << 10;

[[noreturn]] void end_by_sigpipe() {
  std::signal(SIGPIPE, SIG_DFL);
  sigset_t pipe_only;
  sigemptyset(&pipe_only);
  sigaddset(&pipe_only, SIGPIPE);
  pthread_sigmask(SIG_UNBLOCK, &pipe_only, nullptr);
  std::raise(SIGPIPE);
  _exit(128 + SIGPIPE);
}

}  // namespace

void StandardOutput::write(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= kBufferBytes) flush();
}

void StandardOutput::finish() {
  flush();
  const int copy = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (copy < 0 || close(copy) != 0) fail_write(errno);
}

void StandardOutput::flush() {
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    const auto written = ::write(STDOUT_FILENO, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_write(errno);
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  buffer_.clear();
}

void StandardOutput::fail_write(int error_number) {
  if (error_number == EPIPE) end_by_sigpipe();
  broken_ = true;
  buffer_.clear();
  fail_io("write", "standard output", error_number);
}

void prepare_standard_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) >= 0) continue;
    // The lowest free number is this one. Writing to a closed standard output stays an error.
    [[maybe_unused]] const int opened = open("/dev/null", descriptor == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace cairn
