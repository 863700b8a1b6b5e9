// SPDX-License-Identifier: BSD-3-Clause
// A directory that rank 0 makes and all ranks know. Collective, and its end too.
#pragma once

#include <optional>
#include <string>

#include "base/byte_writer.hpp"
#include "temp_dir.hpp"
#include "world.hpp"

namespace cairn {

class SharedDirectory {
 public:
  /// `fill` is called on rank 0 with the directory.
  template <class Fill>
  explicit SharedDirectory(Fill fill) {
    Bytes path;
    if (world().rank() == 0) {
      dir_.emplace();
      fill(*dir_);
      path.assign(as_bytes(dir_->path()).begin(), as_bytes(dir_->path()).end());
    }
    world().broadcast(path, 0);
    path_ = as_text(path);
  }
  ~SharedDirectory() { barrier(world()); }
  SharedDirectory(const SharedDirectory&) = delete;

  const std::string& path() const { return path_; }
  /// On rank 0; elsewhere null.
  const TempDir* mine() const { return dir_ ? &*dir_ : nullptr; }

 private:
  std::optional<TempDir> dir_;
  std::string path_;
};

}  // namespace cairn
