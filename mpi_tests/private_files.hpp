// SPDX-License-Identifier: BSD-3-Clause
// Disks of nodes, played on one machine: each rank sees what it is allowed to.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>

#include "base/fail.hpp"
#include "storage/forwarding.hpp"

namespace cairn {

/// Paths for which `hidden` says so are not there, as on a disk of another node.
class PrivateFileSystem final : public ForwardingFileSystem {
 public:
  using Hidden = std::function<bool(const std::string& path)>;
  PrivateFileSystem(FileSystem& inner, Hidden hidden)
      : ForwardingFileSystem(inner), hidden_(std::move(hidden)) {}

  std::unique_ptr<File> open_read(const std::string& path) override {
    refuse_hidden(path);
    ++opened_;
    return inner_.open_read(path);
  }
  std::unique_ptr<File> open_write(const std::string& path) override {
    refuse_hidden(path);
    return inner_.open_write(path);
  }
  std::optional<FileStatus> status(const std::string& path, bool follow_symlink) override {
    return hidden_(path) ? std::nullopt : inner_.status(path, follow_symlink);
  }
  std::vector<std::string> list(const std::string& path) override {
    refuse_hidden(path);
    auto names = inner_.list(path);
    std::erase_if(names, [&](const std::string& name) { return hidden_(path + "/" + name); });
    return names;
  }
  std::string resolve(const std::string& path) override {
    refuse_hidden(path);
    return inner_.resolve(path);
  }

  /// Files opened for reading so far.
  int opened() const { return opened_; }

 private:
  void refuse_hidden(const std::string& path) const {
    if (hidden_(path)) fail(ErrorKind::not_found, "{}: no such file or directory", path);
  }

  Hidden hidden_;
  std::atomic<int> opened_{0};
};

}  // namespace cairn
