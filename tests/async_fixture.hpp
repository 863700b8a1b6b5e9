// SPDX-License-Identifier: BSD-3-Clause
// What tests of saves in the background need: a file system that holds them, and what their directories hold.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <string>

#include "storage/forwarding.hpp"

namespace cairn {

/// Shards are made when the gate is open.
class GatedFiles final : public ForwardingFileSystem {
 public:
  explicit GatedFiles(FileSystem& inner) : ForwardingFileSystem(inner) {}

  std::unique_ptr<File> create_exclusive(const std::string& path) override {
    if (path.ends_with(".distcp")) {
      std::unique_lock lock(mutex_);
      opened_.wait(lock, [this] { return is_open_; });
    }
    return ForwardingFileSystem::create_exclusive(path);
  }
  void set_open(bool open) {
    const std::lock_guard lock(mutex_);
    is_open_ = open;
    opened_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool is_open_ = true;
};

using Contents = std::map<std::string, std::string>;

/// The files below a directory, by path; empty where there is none. `ending`: of those that are wanted.
inline Contents contents_of(const std::string& directory, const std::string& ending = "") {
  Contents contents;
  if (!std::filesystem::exists(directory)) return contents;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file() || !entry.path().string().ends_with(ending)) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    contents[std::filesystem::relative(entry.path(), directory)] = {std::istreambuf_iterator<char>(in),
                                                                    std::istreambuf_iterator<char>()};
  }
  return contents;
}

}  // namespace cairn
