// SPDX-License-Identifier: BSD-3-Clause
// Several files as the ranges of one, for writing. Local.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "cairn/storage.hpp"
#include "plan/windows.hpp"

namespace cairn {

class JoinedFiles final : public File {
 public:
  struct Part {
    std::string path;
    ByteRange range;
    std::uint64_t file_offset = 0;  ///< where in the file the range begins
  };
  /// The parts are in order and apart; what is written between them must be zeros, and is dropped. They are
  /// opened when they are first written to, waited for as open_write_late() does, a bounded number at a
  /// time; with `sync` one is made durable before it is closed. `files` outlives the object.
  JoinedFiles(FileSystem& files, std::vector<Part> parts, double timeout_s, bool sync);

  void write(std::uint64_t byte_offset, std::span<const std::byte> bytes) override;
  void sync() override;
  void close() override;

  // none of these is asked of an output
  std::uint64_t size() override;
  FileStatus status() override;
  void read(std::uint64_t byte_offset, std::span<std::byte> into) override;
  std::uint64_t copy_from(File& source, std::uint64_t from, std::uint64_t to, std::uint64_t bytes) override;
  void allocate(std::uint64_t size) override;
  bool try_lock() override;
  bool try_lock_shared() override;

 private:
  std::shared_ptr<File> open(std::size_t part);
  void make_room();

  FileSystem& files_;
  const std::vector<Part> parts_;
  const double timeout_s_;
  const bool sync_;
  const std::size_t capacity_;
  std::mutex mutex_;
  std::map<std::size_t, std::shared_ptr<File>> open_;  // guarded
};

}  // namespace cairn
