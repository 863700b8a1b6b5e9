// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/open_late.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "cairn/error.hpp"

namespace cairn {

namespace {

template <class Open>
std::unique_ptr<File> open_late(std::chrono::steady_clock::time_point begin, double timeout_s, Open open) {
  std::chrono::milliseconds pause(1);
  for (;;) {
    try {
      return open();
    } catch (const Error& error) {
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
      if (error.kind() != ErrorKind::not_found || waited.count() > timeout_s) throw;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(500));
  }
}

}  // namespace

std::unique_ptr<File> open_write_late(FileSystem& files, const std::string& path, double timeout_s) {
  return open_late(std::chrono::steady_clock::now(), timeout_s, [&] { return files.open_write(path); });
}

LateFileSystem::LateFileSystem(FileSystem& inner, double timeout_s)
    : ForwardingFileSystem(inner), timeout_s_(timeout_s) {}

std::unique_ptr<File> LateFileSystem::open_read(const std::string& path) {
  return open_late(begin_, timeout_s_, [&] { return inner_.open_read(path); });
}

}  // namespace cairn
