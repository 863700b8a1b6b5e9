// SPDX-License-Identifier: BSD-3-Clause
// A file system that passes everything on, counts it, and fails on request. For tests of what is built on
// top.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cairn/storage.hpp"

namespace cairn {

enum class Operation : std::uint8_t {
  open_read,
  create,
  open_write,
  status,
  list,
  make_directories,
  rename,  ///< rename_no_replace too
  unlink,
  sync_directory,
  free_bytes,
  writable_directory,
  resolve,
  type_name,
  read,
  write,
  copy,
  allocate,
  sync,
  close,
  lock,
  link,
  remove_directory,
};
constexpr std::size_t operation_count = 22;

/// What happens to some calls of one operation. The effects can be combined; a call is delayed first.
struct InjectedFault {
  Operation operation;
  std::string path_contains = {};  ///< the path passed (of a rename: either); empty: every path
  std::uint64_t first_call = 0;    ///< of the matching calls, counted from 0
  std::uint64_t call_count = std::numeric_limits<std::uint64_t>::max();

  std::chrono::milliseconds delay{0};
  /// An errno value; the error has the kind and words of the real one. ENOENT makes status() find nothing,
  /// EAGAIN makes try_lock() and try_lock_shared() false, EXDEV makes copy_from() copy nothing, ENOSPC lets a
  /// write store its first half.
  int error_number = 0;
  bool short_read = false;  ///< of a read: corrupt, as at the end of the file
  bool kill = false;        ///< ends the process as `kill -9` does; a write stores its first half before
  std::optional<std::uint64_t> flip_bit_of_byte{};  ///< of a read over this byte of the file: its lowest bit
};

struct OperationCount {
  std::uint64_t calls = 0;  ///< failed ones too
  std::uint64_t bytes = 0;  ///< moved by successful reads and writes
};

/// Thread-safe. Outlives the files it opened. Local.
class FaultyFileSystem final : public FileSystem {
 public:
  explicit FaultyFileSystem(FileSystem& inner) : inner_(inner) {}

  void inject(InjectedFault fault);
  /// Forgets all faults; the counts stay.
  void heal();
  OperationCount count(Operation operation) const;

  std::unique_ptr<File> open_read(const std::string& path) override;
  std::unique_ptr<File> create_exclusive(const std::string& path) override;
  std::unique_ptr<File> open_write(const std::string& path) override;
  std::optional<FileStatus> status(const std::string& path, bool follow_symlink = true) override;
  std::vector<std::string> list(const std::string& path) override;
  void make_directories(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  void rename_no_replace(const std::string& from, const std::string& to) override;
  void unlink(const std::string& path) override;
  void remove_directory(const std::string& path) override;
  void link(const std::string& from, const std::string& to) override;
  void sync_directory(const std::string& path) override;
  std::uint64_t free_bytes(const std::string& path) override;
  bool writable_directory(const std::string& path) override;
  std::string resolve(const std::string& path) override;
  std::string type_name(const std::string& path) override;

 private:
  friend class FaultyFile;
  struct Armed {
    InjectedFault fault;
    std::uint64_t matching_calls = 0;
  };
  /// What is to happen to one call.
  struct Effect {
    int error_number = 0;
    bool short_read = false, kill = false;
    std::vector<std::uint64_t> flipped_bytes;
  };

  /// Counts the call, waits out its delays.
  Effect begin(Operation operation, const std::string& path, const std::string& other_path = {});
  /// begin(), and throws the error that is to happen.
  void pass(Operation operation, const std::string& path, const std::string& other_path = {});
  void moved(Operation operation, std::uint64_t bytes);

  FileSystem& inner_;
  mutable std::mutex mutex_;
  std::vector<Armed> armed_;
  std::array<OperationCount, operation_count> counts_{};
};

}  // namespace cairn
