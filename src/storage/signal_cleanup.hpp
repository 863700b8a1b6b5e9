// SPDX-License-Identifier: BSD-3-Clause
// Temporaries do not outlive a process that is told to end.
#pragma once

#include <csignal>
#include <cstddef>
#include <string>

namespace cairn {

/// On SIGINT, SIGTERM and SIGHUP, from now on: unlinks the registered paths, says what is registered to be
/// said, then ends by the same signal (a shell sees 128 + its number). A signal that the process was started
/// to ignore stays ignored. Called by programs, never by the library. Local.
void install_signal_cleanup();

/// Unlinks the registered paths; they are registered no more. For who ends the process in another way. Local.
void remove_registered_files() noexcept;

/// While it lives, those signals wait for this thread: between making a file and registering it.
class SignalsHeld {
 public:
  SignalsHeld();
  ~SignalsHeld();
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

  /// On a thread that the holding one started: it takes the signals meanwhile.
  void release_here() const;

 private:
  sigset_t before_;
};

/// While it lives, `path` (absolute, or the working directory stays) is unlinked by
/// install_signal_cleanup()'s signals. At most 64 at a time; more are not registered. Thread-safe. Local.
class RemoveOnSignal {
 public:
  RemoveOnSignal() = default;
  explicit RemoveOnSignal(const std::string& path);
  ~RemoveOnSignal();
  RemoveOnSignal(RemoveOnSignal&& other) noexcept;
  RemoveOnSignal& operator=(RemoveOnSignal&& other) noexcept;

 private:
  static constexpr std::size_t nowhere = ~std::size_t{0};
  std::size_t slot_ = nowhere;
};

/// While it lives, `text` (a line) is written to standard error when one of those signals ends the process.
class SayOnSignal {
 public:
  SayOnSignal() = default;
  explicit SayOnSignal(const std::string& text);
  ~SayOnSignal();
  SayOnSignal(const SayOnSignal&) = delete;

 private:
  char* text_ = nullptr;
};

}  // namespace cairn
