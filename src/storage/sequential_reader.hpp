// SPDX-License-Identifier: BSD-3-Clause
// Reads a file from front to back through one small buffer that stays in the processor's cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cairn/storage.hpp"

namespace cairn {

/// Local, for one thread. Every call throws what File::read throws.
class SequentialReader {
 public:
  explicit SequentialReader(std::size_t buffer_bytes) : buffer_(buffer_bytes) {}

  /// What follows reads this file, and reads ahead up to byte `end` of it.
  void start(std::shared_ptr<File> file, std::uint64_t end);

  /// Bytes [at, at + count), valid until the next call. More than the buffer holds makes it grow.
  std::span<const std::byte> view(std::uint64_t at, std::size_t count);
  /// The bytes from `at` on that one read gives: one at least, `most` (> 0) at most. Valid until the next
  /// call.
  std::span<const std::byte> some(std::uint64_t at, std::uint64_t most);
  /// Fills `into`, out of the buffer where it is there; the buffer stays as it is.
  void peek(std::uint64_t at, std::span<std::byte> into);

  File& file() const { return *file_; }
  /// Bytes that came from files so far.
  std::uint64_t read_bytes() const { return read_bytes_; }

 private:
  bool holds(std::uint64_t at, std::uint64_t count) const;
  void fill(std::uint64_t at, std::size_t count);
  void read(std::uint64_t at, std::span<std::byte> into);

  std::shared_ptr<File> file_;
  std::uint64_t limit_ = 0;
  std::vector<std::byte> buffer_;
  std::uint64_t begin_ = 0;  // of the buffer's content in the file
  std::size_t filled_ = 0;
  std::uint64_t read_bytes_ = 0;
};

}  // namespace cairn
