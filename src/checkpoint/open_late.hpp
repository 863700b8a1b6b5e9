// SPDX-License-Identifier: BSD-3-Clause
// Files that another rank has just made. Local.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "cairn/storage.hpp"
#include "storage/forwarding.hpp"

namespace cairn {

/// open_write, tried again with growing pauses while the file is not there yet (network file systems show it
/// late), for at most `timeout_s` seconds.
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
