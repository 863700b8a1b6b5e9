// SPDX-License-Identifier: BSD-3-Clause
#include "storage/activity.hpp"

#include <algorithm>
#include <fstream>
#include <utility>

namespace cairn {
namespace {

constexpr std::string_view kSyncing = "syncing", kOpening = "opening", kLooking = "looking at",
                           kRenaming = "renaming", kRemoving = "removing";

class WatchedFile final : public File {
 public:
  WatchedFile(Activity& activity, std::unique_ptr<File> inner)
      : File(inner->path()), activity_(activity), inner_(std::move(inner)) {}

  std::uint64_t size() override { return inner_->size(); }
  FileStatus status() override { return inner_->status(); }
  void read(std::uint64_t byte_offset, std::span<std::byte> into) override {
    const Activity::Running running(&activity_, "reading", path());
    inner_->read(byte_offset, into);
  }
  void write(std::uint64_t byte_offset, std::span<const std::byte> bytes) override {
    const Activity::Running running(&activity_, "writing", path());
    inner_->write(byte_offset, bytes);
  }
  std::uint64_t copy_from(File& source, std::uint64_t from, std::uint64_t to, std::uint64_t bytes) override {
    const Activity::Running running(&activity_, "copying into", path());
    auto* const watched = dynamic_cast<WatchedFile*>(&source);
    return inner_->copy_from(watched == nullptr ? source : *watched->inner_, from, to, bytes);
  }
  void allocate(std::uint64_t size) override {
    const Activity::Running running(&activity_, "allocating", path());
    inner_->allocate(size);
  }
  void sync() override {
    const Activity::Running running(&activity_, kSyncing, path());
    inner_->sync();
  }
  void close() override {  // network file systems write back here
    const Activity::Running running(&activity_, kSyncing, path());
    inner_->close();
  }
  bool try_lock() override {
    const Activity::Running running(&activity_, "locking", path());
    return inner_->try_lock();
  }
  bool try_lock_shared() override {
    const Activity::Running running(&activity_, "locking", path());
    return inner_->try_lock_shared();
  }

 private:
  Activity& activity_;
  std::unique_ptr<File> inner_;
};

}  // namespace

Activity::Running::Running(Activity* activity, std::string_view what, const std::string& path)
    : activity_(activity) {
  if (activity_ == nullptr) return;
  std::list<Operation> mine;  // made outside of the lock
  mine.push_back({what, path, Clock::now()});
  const std::lock_guard lock(activity_->mutex_);
  activity_->running_.splice(activity_->running_.end(), mine);
  place_ = std::prev(activity_->running_.end());
}

Activity::Running::~Running() {
  if (activity_ == nullptr) return;
  std::list<Operation> mine;
  const std::lock_guard lock(activity_->mutex_);
  mine.splice(mine.end(), activity_->running_, place_);
  ++activity_->ended_;
}

std::optional<Activity::Operation> Activity::oldest() const {
  const std::lock_guard lock(mutex_);
  if (running_.empty()) return std::nullopt;
  return running_.front();
}

bool Activity::is_syncing() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(running_, [](const Operation& operation) { return operation.what == kSyncing; });
}

std::optional<std::uint64_t> pages_written_back() {
  std::ifstream statistics("/proc/vmstat");
  std::string name;
  for (std::uint64_t value = 0; statistics >> name >> value;) {
    if (name == "nr_written") return value;
  }
  return std::nullopt;
}

std::unique_ptr<File> WatchedFileSystem::open_read(const std::string& path) {
  const Activity::Running running(&activity_, kOpening, path);
  return std::make_unique<WatchedFile>(activity_, inner_.open_read(path));
}

std::unique_ptr<File> WatchedFileSystem::create_exclusive(const std::string& path) {
  const Activity::Running running(&activity_, "making", path);
  return std::make_unique<WatchedFile>(activity_, inner_.create_exclusive(path));
}

std::unique_ptr<File> WatchedFileSystem::open_write(const std::string& path) {
  const Activity::Running running(&activity_, kOpening, path);
  return std::make_unique<WatchedFile>(activity_, inner_.open_write(path));
}

std::optional<FileStatus> WatchedFileSystem::status(const std::string& path, bool follow_symlink) {
  const Activity::Running running(&activity_, kLooking, path);
  return inner_.status(path, follow_symlink);
}

std::vector<std::string> WatchedFileSystem::list(const std::string& path) {
  const Activity::Running running(&activity_, "listing", path);
  return inner_.list(path);
}

void WatchedFileSystem::make_directories(const std::string& path) {
  const Activity::Running running(&activity_, "making", path);
  inner_.make_directories(path);
}

void WatchedFileSystem::rename(const std::string& from, const std::string& to) {
  const Activity::Running running(&activity_, kRenaming, from);
  inner_.rename(from, to);
}

void WatchedFileSystem::rename_no_replace(const std::string& from, const std::string& to) {
  const Activity::Running running(&activity_, kRenaming, from);
  inner_.rename_no_replace(from, to);
}

void WatchedFileSystem::unlink(const std::string& path) {
  const Activity::Running running(&activity_, kRemoving, path);
  inner_.unlink(path);
}

void WatchedFileSystem::remove_directory(const std::string& path) {
  const Activity::Running running(&activity_, kRemoving, path);
  inner_.remove_directory(path);
}

void WatchedFileSystem::link(const std::string& from, const std::string& to) {
  const Activity::Running running(&activity_, "linking", from);
  inner_.link(from, to);
}

void WatchedFileSystem::sync_directory(const std::string& path) {
  const Activity::Running running(&activity_, kSyncing, path);
  inner_.sync_directory(path);
}

std::uint64_t WatchedFileSystem::free_bytes(const std::string& path) {
  const Activity::Running running(&activity_, kLooking, path);
  return inner_.free_bytes(path);
}

bool WatchedFileSystem::writable_directory(const std::string& path) {
  const Activity::Running running(&activity_, kLooking, path);
  return inner_.writable_directory(path);
}

std::string WatchedFileSystem::resolve(const std::string& path) {
  const Activity::Running running(&activity_, kLooking, path);
  return inner_.resolve(path);
}

}  // namespace cairn
