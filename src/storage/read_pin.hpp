// SPDX-License-Identifier: BSD-3-Clause
// Readers and removers of a checkpoint meet at a lock of its `.metadata`: shared for those who read,
// exclusive for the moment in which it is taken away (docs/publishing.md). Local.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "cairn/storage.hpp"

namespace cairn {

/// One pin keeps an iteration with all its components: of very many so many are enough.
inline constexpr std::size_t kMostPins = 64;

/// While it lives, exclusive_lock() of the file finds it in use.
class ReadPin {
 public:
  ReadPin() = default;
  /// Never throws: what cannot be opened or locked is not pinned, and whoever reads it finds out why.
  /// Somebody who holds the exclusive lock is waited for, for a second; then the file is read without a pin.
  static ReadPin take(FileSystem& files, const std::string& path);

  bool is_held() const { return file_ != nullptr; }

 private:
  std::unique_ptr<File> file_;
};

/// The file, locked for as long as it is open; null when somebody reads it, or has the lock already. Without
/// a lock where the file system has none. Throws as FileSystem::open_write, and not_found when the name means
/// another file by now.
std::unique_ptr<File> exclusive_lock(FileSystem& files, const std::string& path);

}  // namespace cairn
