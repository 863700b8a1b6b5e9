// SPDX-License-Identifier: BSD-3-Clause
// A file system that passes everything on: the base of those that change some answers. Local.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/storage.hpp"

namespace cairn {

class ForwardingFileSystem : public FileSystem {
 public:
  /// `inner` outlives it.
  explicit ForwardingFileSystem(FileSystem& inner) : inner_(inner) {}

  std::unique_ptr<File> open_read(const std::string& path) override { return inner_.open_read(path); }
  std::unique_ptr<File> create_exclusive(const std::string& path) override {
    return inner_.create_exclusive(path);
  }
  std::unique_ptr<File> open_write(const std::string& path) override { return inner_.open_write(path); }
  std::optional<FileStatus> status(const std::string& path, bool follow_symlink) override {
    return inner_.status(path, follow_symlink);
  }
  std::vector<std::string> list(const std::string& path) override { return inner_.list(path); }
  void make_directories(const std::string& path) override { inner_.make_directories(path); }
  void rename(const std::string& from, const std::string& to) override { inner_.rename(from, to); }
  void rename_no_replace(const std::string& from, const std::string& to) override {
    inner_.rename_no_replace(from, to);
  }
  void unlink(const std::string& path) override { inner_.unlink(path); }
  void remove_directory(const std::string& path) override { inner_.remove_directory(path); }
  void link(const std::string& from, const std::string& to) override { inner_.link(from, to); }
  void sync_directory(const std::string& path) override { inner_.sync_directory(path); }
  std::uint64_t free_bytes(const std::string& path) override { return inner_.free_bytes(path); }
  bool writable_directory(const std::string& path) override { return inner_.writable_directory(path); }
  std::string resolve(const std::string& path) override { return inner_.resolve(path); }
  std::string type_name(const std::string& path) override { return inner_.type_name(path); }

 protected:
  FileSystem& inner_;
};

}  // namespace cairn
