// SPDX-License-Identifier: BSD-3-Clause
// Open files for reading, bounded: a checkpoint of 5 000 shards is read under `ulimit -n 256`.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "cairn/storage.hpp"

namespace cairn {

/// A quarter of the soft limit on open files, at least 8, at most 1024.
std::size_t default_file_capacity();

/// Where the soft limit leaves no room for so many open files beside others, raises it as far as the hard one
/// allows.
void make_room_for_open_files(std::size_t count);

/// Thread-safe. Keeps the `capacity` files used last; a file that falls out stays open until its last user
/// lets go. Local.
class FileCache {
 public:
  explicit FileCache(FileSystem& files, std::size_t capacity = default_file_capacity());

  /// Throws what FileSystem::open_read throws; a failure is not remembered.
  std::shared_ptr<File> open(const std::string& path);

 private:
  struct Entry {
    std::string path;
    std::shared_ptr<File> file;
  };
  std::shared_ptr<File> find(const std::string& path);
  std::shared_ptr<File> insert(const std::string& path, std::shared_ptr<File> file);

  FileSystem& files_;
  std::size_t capacity_;
  std::mutex mutex_;
  std::list<Entry> by_use_;  ///< last used first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_path_;
};

}  // namespace cairn
