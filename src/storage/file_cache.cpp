// SPDX-License-Identifier: BSD-3-Clause
#include "storage/file_cache.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

namespace cairn {

std::size_t default_file_capacity() {
  constexpr std::size_t least = 8, most = 1024;
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return least;
  return std::clamp<std::size_t>(limit.rlim_cur / 4, least, most);
}

void make_room_for_open_files(std::size_t count) {
  constexpr rlim_t others = 256;
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= count + others) return;
  limit.rlim_cur = std::min<rlim_t>(count + others, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
}

FileCache::FileCache(FileSystem& files, std::size_t capacity)
    : files_(files), capacity_(std::max<std::size_t>(capacity, 1)) {}

std::shared_ptr<File> FileCache::open(const std::string& path) {
  if (auto file = find(path)) return file;
  // Not under the lock: opening takes a round trip on network file systems.
  return insert(path, files_.open_read(path));
}

std::shared_ptr<File> FileCache::find(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const auto found = by_path_.find(path);
  if (found == by_path_.end()) return nullptr;
  by_use_.splice(by_use_.begin(), by_use_, found->second);
  return found->second->file;
}

std::shared_ptr<File> FileCache::insert(const std::string& path, std::shared_ptr<File> file) {
  Entry dropped;  // closed after the lock is released
  const std::lock_guard lock(mutex_);
  if (const auto found = by_path_.find(path); found != by_path_.end()) return found->second->file;
  if (by_use_.size() == capacity_) {
    dropped = std::move(by_use_.back());
    by_path_.erase(dropped.path);
    by_use_.pop_back();
  }
  by_use_.push_front({path, std::move(file)});
  by_path_.emplace(path, by_use_.begin());
  return by_use_.front().file;
}

}  // namespace cairn
