// SPDX-License-Identifier: BSD-3-Clause
#include "storage/read_pin.hpp"

#include <chrono>
#include <thread>

#include "base/fail.hpp"

namespace cairn {
namespace {

constexpr int kAttempts = 100;
constexpr std::chrono::milliseconds kPause(10);

bool is_named(FileSystem& files, const std::string& path, File& file) {
  const auto ours = file.status();
  const auto named = files.status(path);
  return named && named->device == ours.device && named->inode == ours.inode;
}

}  // namespace

ReadPin ReadPin::take(FileSystem& files, const std::string& path) {
  ReadPin pin;
  try {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      auto file = files.open_read(path);
      if (!file->try_lock_shared()) {
        std::this_thread::sleep_for(kPause);
      } else if (is_named(files, path, *file)) {  // else it was taken away before it was locked
        pin.file_ = std::move(file);
        break;
      }
    }
  } catch (const Error&) {
  }
  return pin;
}

std::unique_ptr<File> exclusive_lock(FileSystem& files, const std::string& path) {
  auto file = files.open_write(path);
  if (!file->try_lock()) return nullptr;
  if (!is_named(files, path, *file)) fail(ErrorKind::not_found, "{}: another file by now", path);
  return file;
}

}  // namespace cairn
