// SPDX-License-Identifier: BSD-3-Clause
// Files and directories that another rank has just made. Local.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "cairn/error.hpp"
#include "cairn/storage.hpp"
#include "storage/forwarding.hpp"

namespace cairn {

/// What `attempt` returns; it is made again, with growing pauses, while it throws not_found (network file
/// systems show late what another node has made), until `timeout_s` seconds after `begin`.
template <class Attempt>
auto while_missing(std::chrono::steady_clock::time_point begin, double timeout_s, Attempt attempt) {
  std::chrono::milliseconds pause(1);
  for (;;) {
    try {
      return attempt();
    } catch (const Error& error) {
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
      if (error.kind() != ErrorKind::not_found || waited.count() > timeout_s) throw;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(500));
  }
}

/// open_write, tried so from now on.
std::unique_ptr<File> open_write_late(FileSystem& files, const std::string& path, double timeout_s);

/// Waits likewise for files that are opened for reading, until `timeout_s` after its own beginning.
class LateFileSystem final : public ForwardingFileSystem {
 public:
  LateFileSystem(FileSystem& inner, double timeout_s);

  std::unique_ptr<File> open_read(const std::string& path) override;

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  const double timeout_s_;
};

}  // namespace cairn
