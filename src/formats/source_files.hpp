// SPDX-License-Identifier: BSD-3-Clause
// The files of a source, by their names in its directory: opened as they are needed, and what came from them
// counted. Local; any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cairn/storage.hpp"
#include "storage/file_cache.hpp"

namespace cairn {

class SourceFiles {
 public:
  /// Opens nothing yet. `files` outlives it.
  SourceFiles(FileSystem& files, std::string directory) : directory_(std::move(directory)), cache_(files) {}

  const std::string& directory() const { return directory_; }
  /// Throws what FileSystem::open_read throws, as do the others.
  std::shared_ptr<File> open(const std::string& name) { return cache_.open(directory_ + "/" + name); }

  /// As Source::read and Source::copy.
  void read(const std::string& name, std::uint64_t byte_offset, std::span<std::byte> into);
  std::uint64_t copy(const std::string& name, std::uint64_t byte_offset, std::uint64_t bytes, File& output,
                     std::uint64_t output_offset);
  std::uint64_t read_bytes() const { return read_bytes_; }

 private:
  std::string directory_;
  FileCache cache_;
  std::atomic<std::uint64_t> read_bytes_{0};
};

}  // namespace cairn
