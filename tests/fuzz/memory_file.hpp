// SPDX-License-Identifier: BSD-3-Clause
// Bytes as a file that is only read; a read outside them is the decoder's mistake.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "cairn/storage.hpp"

namespace cairn {

class Memory final : public File {
 public:
  explicit Memory(std::span<const std::uint8_t> bytes) : File("input"), bytes_(bytes) {}
  std::uint64_t size() override { return bytes_.size(); }
  FileStatus status() override { return {FileType::regular, bytes_.size(), 0, 0, 0}; }
  void read(std::uint64_t at, std::span<std::byte> into) override {
    if (at > bytes_.size() || into.size() > bytes_.size() - at) std::abort();  // a read outside the file
    if (!into.empty()) std::memcpy(into.data(), bytes_.data() + at, into.size());
  }
  void write(std::uint64_t, std::span<const std::byte>) override { std::abort(); }
  std::uint64_t copy_from(File&, std::uint64_t, std::uint64_t, std::uint64_t) override { std::abort(); }
  void allocate(std::uint64_t) override { std::abort(); }
  void sync() override { std::abort(); }
  void close() override {}
  bool try_lock() override { std::abort(); }
  bool try_lock_shared() override { std::abort(); }

 private:
  std::span<const std::uint8_t> bytes_;
};

}  // namespace cairn
