// SPDX-License-Identifier: BSD-3-Clause
#include "storage/fault.hpp"

#include <cerrno>
#include <csignal>
#include <thread>
#include <utility>

#include "base/fail.hpp"
#include "storage/posix_file.hpp"

namespace cairn {

namespace {

constexpr const char* operation_names[] = {
    "open",      "create",  "open",   "stat",    "list",   "mkdir", "rename", "unlink",
    "fsync",     "statvfs", "access", "resolve", "statfs", "read",  "write",  "copy_file_range",
    "fallocate", "fsync",   "close",  "lock",    "link",   "rmdir",
};
static_assert(std::size(operation_names) == operation_count);

constexpr std::size_t index_of(Operation operation) { return static_cast<std::size_t>(operation); }

[[noreturn]] void fail_as_asked(Operation operation, const std::string& path, int error_number,
                                std::uint64_t needed_bytes = 0) {
  fail_write(operation_names[index_of(operation)], path, error_number, needed_bytes, 0);
}

}  // namespace

class FaultyFile final : public File {
 public:
  FaultyFile(FaultyFileSystem& faults, std::unique_ptr<File> inner)
      : File(inner->path()), faults_(faults), inner_(std::move(inner)) {}

  std::uint64_t size() override { return inner_->size(); }
  FileStatus status() override { return inner_->status(); }

  void read(std::uint64_t byte_offset, std::span<std::byte> into) override {
    const auto effect = faults_.begin(Operation::read, path());
    if (effect.error_number != 0) fail_as_asked(Operation::read, path(), effect.error_number);
    if (effect.short_read) {
      fail_corrupt("{}: short read: {} bytes expected at byte {}, {} there", path(), into.size(), byte_offset,
                   into.size() / 2);
    }
    inner_->read(byte_offset, into);
    for (const auto byte : effect.flipped_bytes) {
      if (byte >= byte_offset && byte - byte_offset < into.size()) into[byte - byte_offset] ^= std::byte{1};
    }
    faults_.moved(Operation::read, into.size());
  }

  void write(std::uint64_t byte_offset, std::span<const std::byte> bytes) override {
    const auto effect = faults_.begin(Operation::write, path());
    if (effect.error_number == ENOSPC || effect.kill)
      inner_->write(byte_offset, bytes.first(bytes.size() / 2));
    if (effect.kill) std::raise(SIGKILL);
    if (effect.error_number != 0) {
      fail_as_asked(Operation::write, path(), effect.error_number, bytes.size());
    }
    inner_->write(byte_offset, bytes);
    faults_.moved(Operation::write, bytes.size());
  }

  std::uint64_t copy_from(File& source, std::uint64_t from, std::uint64_t to, std::uint64_t bytes) override {
    const auto effect = faults_.begin(Operation::copy, path());
    if (effect.error_number == EXDEV) return 0;
    if (effect.error_number != 0) fail_as_asked(Operation::copy, path(), effect.error_number, bytes);
    auto* const faulty = dynamic_cast<FaultyFile*>(&source);
    const auto copied = inner_->copy_from(faulty == nullptr ? source : *faulty->inner_, from, to, bytes);
    faults_.moved(Operation::copy, copied);
    return copied;
  }

  void allocate(std::uint64_t size) override {
    const auto effect = faults_.begin(Operation::allocate, path());
    if (effect.error_number != 0) fail_as_asked(Operation::allocate, path(), effect.error_number, size);
    inner_->allocate(size);
  }

  void sync() override {
    faults_.pass(Operation::sync, path());
    inner_->sync();
  }

  void close() override {
    const auto effect = faults_.begin(Operation::close, path());
    inner_->close();  // a failing close(2) closes too
    if (effect.error_number != 0) fail_as_asked(Operation::close, path(), effect.error_number);
  }

  bool try_lock() override { return may_lock() && inner_->try_lock(); }
  bool try_lock_shared() override { return may_lock() && inner_->try_lock_shared(); }

 private:
  bool may_lock() {
    const auto effect = faults_.begin(Operation::lock, path());
    if (effect.error_number == EAGAIN) return false;
    if (effect.error_number != 0) fail_as_asked(Operation::lock, path(), effect.error_number);
    return true;
  }

  FaultyFileSystem& faults_;
  std::unique_ptr<File> inner_;
};

void FaultyFileSystem::inject(InjectedFault fault) {
  const std::lock_guard lock(mutex_);
  armed_.push_back({std::move(fault)});
}

void FaultyFileSystem::heal() {
  const std::lock_guard lock(mutex_);
  armed_.clear();
}

OperationCount FaultyFileSystem::count(Operation operation) const {
  const std::lock_guard lock(mutex_);
  return counts_[index_of(operation)];
}

FaultyFileSystem::Effect FaultyFileSystem::begin(Operation operation, const std::string& path,
                                                 const std::string& other_path) {
  Effect effect;
  std::chrono::milliseconds delay{0};
  {
    const std::lock_guard lock(mutex_);
    ++counts_[index_of(operation)].calls;
    for (auto& [fault, matching_calls] : armed_) {
      const bool here = path.find(fault.path_contains) != std::string::npos ||
                        other_path.find(fault.path_contains) != std::string::npos;
      if (fault.operation != operation || !here) continue;
      const auto call = matching_calls++;
      if (call < fault.first_call || call - fault.first_call >= fault.call_count) continue;
      delay += fault.delay;
      if (effect.error_number == 0) effect.error_number = fault.error_number;
      effect.short_read |= fault.short_read;
      effect.kill |= fault.kill;
      if (fault.flip_bit_of_byte) effect.flipped_bytes.push_back(*fault.flip_bit_of_byte);
    }
  }
  if (delay.count() > 0) std::this_thread::sleep_for(delay);
  if (effect.kill && operation != Operation::write) std::raise(SIGKILL);
  return effect;
}

void FaultyFileSystem::pass(Operation operation, const std::string& path, const std::string& other_path) {
  const auto effect = begin(operation, path, other_path);
  if (effect.error_number != 0) fail_as_asked(operation, path, effect.error_number);
}

void FaultyFileSystem::moved(Operation operation, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  counts_[index_of(operation)].bytes += bytes;
}

std::unique_ptr<File> FaultyFileSystem::open_read(const std::string& path) {
  pass(Operation::open_read, path);
  return std::make_unique<FaultyFile>(*this, inner_.open_read(path));
}

std::unique_ptr<File> FaultyFileSystem::create_exclusive(const std::string& path) {
  pass(Operation::create, path);
  return std::make_unique<FaultyFile>(*this, inner_.create_exclusive(path));
}

std::unique_ptr<File> FaultyFileSystem::open_write(const std::string& path) {
  pass(Operation::open_write, path);
  return std::make_unique<FaultyFile>(*this, inner_.open_write(path));
}

std::optional<FileStatus> FaultyFileSystem::status(const std::string& path, bool follow_symlink) {
  const auto effect = begin(Operation::status, path);
  if (effect.error_number == ENOENT) return std::nullopt;
  if (effect.error_number != 0) fail_as_asked(Operation::status, path, effect.error_number);
  return inner_.status(path, follow_symlink);
}

std::vector<std::string> FaultyFileSystem::list(const std::string& path) {
  pass(Operation::list, path);
  return inner_.list(path);
}

void FaultyFileSystem::make_directories(const std::string& path) {
  pass(Operation::make_directories, path);
  inner_.make_directories(path);
}

void FaultyFileSystem::rename(const std::string& from, const std::string& to) {
  pass(Operation::rename, from, to);
  inner_.rename(from, to);
}

void FaultyFileSystem::rename_no_replace(const std::string& from, const std::string& to) {
  pass(Operation::rename, from, to);
  inner_.rename_no_replace(from, to);
}

void FaultyFileSystem::unlink(const std::string& path) {
  pass(Operation::unlink, path);
  inner_.unlink(path);
}

void FaultyFileSystem::remove_directory(const std::string& path) {
  pass(Operation::remove_directory, path);
  inner_.remove_directory(path);
}

void FaultyFileSystem::link(const std::string& from, const std::string& to) {
  pass(Operation::link, from, to);
  inner_.link(from, to);
}

void FaultyFileSystem::sync_directory(const std::string& path) {
  pass(Operation::sync_directory, path);
  inner_.sync_directory(path);
}

std::uint64_t FaultyFileSystem::free_bytes(const std::string& path) {
  pass(Operation::free_bytes, path);
  return inner_.free_bytes(path);
}

bool FaultyFileSystem::writable_directory(const std::string& path) {
  const auto effect = begin(Operation::writable_directory, path);
  if (effect.error_number == EACCES || effect.error_number == EROFS) return false;
  if (effect.error_number != 0) fail_as_asked(Operation::writable_directory, path, effect.error_number);
  return inner_.writable_directory(path);
}

std::string FaultyFileSystem::resolve(const std::string& path) {
  pass(Operation::resolve, path);
  return inner_.resolve(path);
}

std::string FaultyFileSystem::type_name(const std::string& path) {
  pass(Operation::type_name, path);
  return inner_.type_name(path);
}

}  // namespace cairn
