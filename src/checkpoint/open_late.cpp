// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/open_late.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "cairn/error.hpp"

namespace cairn {

std::unique_ptr<File> open_write_late(FileSystem& files, const std::string& path, double timeout_s) {
  const auto begin = std::chrono::steady_clock::now();
  std::chrono::milliseconds pause(1);
  for (;;) {
    try {
      return files.open_write(path);
    } catch (const Error& error) {
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
      if (error.kind() != ErrorKind::not_found || waited.count() > timeout_s) throw;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(500));
  }
}

}  // namespace cairn
