// SPDX-License-Identifier: BSD-3-Clause
// A file under its final name that goes again unless it is kept. Local.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cairn/storage.hpp"
#include "storage/atomic_outputs.hpp"
#include "storage/signal_cleanup.hpp"

namespace cairn {

class NewFile {
 public:
  /// create_exclusive. `files` outlives it.
  NewFile(FileSystem& files, std::string path);
  /// The same in a directory that another rank has just made, which may be seen up to `timeout_s` late.
  static NewFile create_late(FileSystem& files, const std::string& path, double timeout_s);
  /// Files of these sizes, closed.
  static std::vector<NewFile> create_all(FileSystem& files, std::span<const AtomicOutputs::Wanted> wanted);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  /// Removes the file unless it is kept; a failure to is ignored.
  ~NewFile();

  File& file() { return *file_; }
  void close();
  /// From here on no signal's cleanup removes it: somebody else may publish what refers to it.
  void outlive_signals();
  void keep();

 private:
  struct Removal;
  std::unique_ptr<Removal> removal_;  // null: kept, or moved from
  std::unique_ptr<File> file_;
};

}  // namespace cairn
