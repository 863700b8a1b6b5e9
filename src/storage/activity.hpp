// SPDX-License-Identifier: BSD-3-Clause
// What a process is doing with files right now: for telling one that is slow from one that is stuck.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "storage/forwarding.hpp"

namespace cairn {

/// Thread-safe. Local.
class Activity {
 public:
  using Clock = std::chrono::steady_clock;
  struct Operation {
    std::string_view what;  ///< "reading"
    std::string path;
    Clock::time_point begin;
  };

  /// While it lives, the operation is running. `activity` may be null.
  class Running {
   public:
    Running(Activity* activity, std::string_view what, const std::string& path);
    ~Running();
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    Activity* activity_;
    std::list<Operation>::iterator place_;
  };

  /// Operations that have ended, failed ones too.
  std::uint64_t ended() const { return ended_; }
  /// The one that has been running for the longest time.
  std::optional<Operation> oldest() const;
  /// Whether some thread waits for bytes to become durable: that moves nothing, however much there is.
  bool is_syncing() const;

 private:
  mutable std::mutex mutex_;
  std::list<Operation> running_;  // guarded; in the order of their beginning
  std::atomic<std::uint64_t> ended_{0};
};

/// Pages that the kernel has written back on this machine since it started, whoever wrote them; nullopt where
/// it does not say. While a process waits for durability this is all that can be seen of it.
std::optional<std::uint64_t> pages_written_back();

/// Passes everything on and keeps `activity` informed. Both outlive it and its files.
class WatchedFileSystem final : public ForwardingFileSystem {
 public:
  WatchedFileSystem(FileSystem& inner, Activity& activity)
      : ForwardingFileSystem(inner), activity_(activity) {}

  std::unique_ptr<File> open_read(const std::string& path) override;
  std::unique_ptr<File> create_exclusive(const std::string& path) override;
  std::unique_ptr<File> open_write(const std::string& path) override;
  std::optional<FileStatus> status(const std::string& path, bool follow_symlink) override;
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

 private:
  Activity& activity_;
};

}  // namespace cairn
