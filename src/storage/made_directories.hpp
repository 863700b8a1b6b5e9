// SPDX-License-Identifier: BSD-3-Clause
// Directories that a run makes for its outputs. Local.
#pragma once

#include <string>
#include <vector>

#include "cairn/storage.hpp"

namespace cairn {

/// Those that it made go again with it, as far as they are empty then: a run that fails leaves none behind.
class MadeDirectories {
 public:
  /// `files` outlives it.
  explicit MadeDirectories(FileSystem& files) : files_(files) {}
  MadeDirectories(const MadeDirectories&) = delete;
  MadeDirectories& operator=(const MadeDirectories&) = delete;
  /// Failures to remove are ignored.
  ~MadeDirectories();

  /// FileSystem::make_directories.
  void make(const std::string& path);
  void keep() { made_.clear(); }

 private:
  FileSystem& files_;
  std::vector<std::string> made_;  // outer ones first
};

}  // namespace cairn
