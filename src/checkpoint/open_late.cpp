// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/open_late.hpp"

namespace cairn {

std::unique_ptr<File> open_write_late(FileSystem& files, const std::string& path, double timeout_s) {
  return while_missing(std::chrono::steady_clock::now(), timeout_s, [&] { return files.open_write(path); });
}

LateFileSystem::LateFileSystem(FileSystem& inner, double timeout_s)
    : ForwardingFileSystem(inner), timeout_s_(timeout_s) {}

std::unique_ptr<File> LateFileSystem::open_read(const std::string& path) {
  return while_missing(begin_, timeout_s_, [&] { return inner_.open_read(path); });
}

}  // namespace cairn
