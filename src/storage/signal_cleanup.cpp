// SPDX-License-Identifier: BSD-3-Clause
#include "storage/signal_cleanup.hpp"

#include <unistd.h>
#include <csignal>
#include <cstring>

#include <array>
#include <atomic>
#include <cstdlib>
#include <utility>

namespace cairn {

namespace {

// Whoever takes a path out of its slot owns it: the handler and a running destructor never meet.
std::array<std::atomic<char*>, 64> registered{};
std::atomic<char*> said{nullptr};
static_assert(std::atomic<char*>::is_always_lock_free);

extern "C" void remove_and_end(int signal_number) {
  remove_registered_files();
  if (const char* text = said.exchange(nullptr)) {
    [[maybe_unused]] const auto ignored = ::write(STDERR_FILENO, text, std::strlen(text));
  }
  // Blocked while the handler runs: delivered, with the default action, when it returns.
  std::signal(signal_number, SIG_DFL);
  raise(signal_number);
}

}  // namespace

// Calls nothing that a signal handler may not call.
void remove_registered_files() noexcept {
  for (auto& slot : registered) {
    if (const char* path = slot.exchange(nullptr)) ::unlink(path);
  }
}

void install_signal_cleanup() {
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction current = {};
    if (sigaction(signal_number, nullptr, &current) != 0 || current.sa_handler == SIG_IGN) continue;
    struct sigaction cleanup = {};
    cleanup.sa_handler = remove_and_end;
    sigemptyset(&cleanup.sa_mask);
    sigaddset(&cleanup.sa_mask, SIGINT);
    sigaddset(&cleanup.sa_mask, SIGTERM);
    sigaddset(&cleanup.sa_mask, SIGHUP);
    sigaction(signal_number, &cleanup, nullptr);
  }
}

SignalsHeld::SignalsHeld() {
  sigset_t held;
  sigemptyset(&held);
  sigaddset(&held, SIGINT);
  sigaddset(&held, SIGTERM);
  sigaddset(&held, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &held, &before_);
}

SignalsHeld::~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

void SignalsHeld::release_here() const { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

SayOnSignal::SayOnSignal(const std::string& text) : text_(strdup(text.c_str())) {
  char* nothing = nullptr;
  said.compare_exchange_strong(nothing, text_);
}

SayOnSignal::~SayOnSignal() {
  char* mine = text_;
  said.compare_exchange_strong(mine, nullptr);
  std::free(text_);
}

RemoveOnSignal::RemoveOnSignal(const std::string& path) {
  char* copy = strdup(path.c_str());
  for (std::size_t slot = 0; copy != nullptr && slot < registered.size(); ++slot) {
    char* empty = nullptr;
    if (registered[slot].compare_exchange_strong(empty, copy)) {
      slot_ = slot;
      return;
    }
  }
  std::free(copy);
}

RemoveOnSignal::~RemoveOnSignal() {
  if (slot_ != nowhere) std::free(registered[slot_].exchange(nullptr));
}

RemoveOnSignal::RemoveOnSignal(RemoveOnSignal&& other) noexcept
    : slot_(std::exchange(other.slot_, nowhere)) {}

RemoveOnSignal& RemoveOnSignal::operator=(RemoveOnSignal&& other) noexcept {
  std::swap(slot_, other.slot_);
  return *this;
}

}  // namespace cairn
