// SPDX-License-Identifier: BSD-3-Clause
// A plain descriptor as a File, and what the POSIX file system and its tests share.
#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "cairn/storage.hpp"

namespace cairn {

/// Calls `call` until it is not interrupted by a signal.
template <class Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

/// Owns `descriptor`. Transfers are cut at 1 GiB: Linux moves at most 2 GiB - 4 KiB a call; writes into
/// smaller pieces. Where the file system lets one writer at a time into a file, threads wait for their turn
/// here: in the kernel they would spin.
class PosixFile final : public File {
 public:
  PosixFile(std::string path, int descriptor) : File(std::move(path)), descriptor_(descriptor) {}
  ~PosixFile() override;
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;

  std::uint64_t size() override;
  FileStatus status() override;
  void read(std::uint64_t byte_offset, std::span<std::byte> into) override;
  void write(std::uint64_t byte_offset, std::span<const std::byte> bytes) override;
  std::uint64_t copy_from(File& source, std::uint64_t from, std::uint64_t to, std::uint64_t bytes) override;
  void allocate(std::uint64_t size) override;
  void sync() override;
  void close() override;
  bool try_lock() override;
  bool try_lock_shared() override;

 private:
  bool takes_parallel_writes();
  bool try_lock(short kind);

  int descriptor_;
  std::mutex write_turn_;
  std::optional<bool> parallel_writes_;  // asked at the first write
};

FileStatus to_status(const struct stat& raw);

/// Throws io: ENOSPC and EDQUOT as "disk full" with both numbers, others like fail_io.
[[noreturn]] void fail_write(std::string_view operation, std::string_view path, int error_number,
                             std::uint64_t needed_bytes, std::uint64_t available_bytes);

/// The usual name of a file system from its statfs magic number, in hex where unknown.
std::string file_system_name(std::uint64_t magic);
/// Whether several writers of one client get into one file at a time. Where unknown: no.
bool takes_parallel_writes(std::uint64_t magic);

}  // namespace cairn
