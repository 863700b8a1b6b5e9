// SPDX-License-Identifier: BSD-3-Clause
#include "storage/posix_file.hpp"

#include <fcntl.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "base/fail.hpp"

namespace cairn {

namespace {

constexpr std::size_t largest_transfer = std::size_t{1} << 30;
// The page cache is filled in groups of pages as large as the call allows. Groups of up to 8 pages come from
// lists of memory that was in use just now; larger ones are cut from what was free for long, and a virtual
// machine may have to ask its host for that first: 2 GiB took 1.0 to 1.4 s by calls of 32 KiB, 0.65 to 3.7 s
// by calls of 256 KiB (Linux 6.18, ext4).
constexpr std::size_t largest_write = std::size_t{32} << 10;

off_t to_offset(std::uint64_t bytes, const std::string& path) {
  if (bytes > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max())) {
    fail(ErrorKind::io, "{}: byte {} is beyond the largest file", path, bytes);
  }
  return static_cast<off_t>(bytes);
}

std::uint64_t available_bytes(int descriptor) {
  struct statvfs room;
  if (uninterrupted([&] { return fstatvfs(descriptor, &room); }) != 0) return 0;
  return std::uint64_t{room.f_bavail} * room.f_frsize;
}

// What copy_file_range says between files that it cannot copy between, or on a file system without it.
bool copy_unsupported(int error_number) {
  return error_number == EXDEV || error_number == EINVAL || error_number == EOPNOTSUPP ||
         error_number == ENOSYS || error_number == EPERM || error_number == ETXTBSY;
}

bool locks_unsupported(int error_number) {
  return error_number == ENOSYS || error_number == EOPNOTSUPP || error_number == ENOLCK ||
         error_number == EINVAL;
}

}  // namespace

FileStatus to_status(const struct stat& raw) {
  const auto type = S_ISREG(raw.st_mode)   ? FileType::regular
                    : S_ISDIR(raw.st_mode) ? FileType::directory
                    : S_ISLNK(raw.st_mode) ? FileType::symlink
                                           : FileType::other;
  return {type, static_cast<std::uint64_t>(raw.st_size),
          std::int64_t{raw.st_mtim.tv_sec} * 1'000'000'000 + raw.st_mtim.tv_nsec, raw.st_dev, raw.st_ino};
}

void fail_write(std::string_view operation, std::string_view path, int error_number,
                std::uint64_t needed_bytes, std::uint64_t available_bytes) {
  if (error_number == ENOSPC) {
    fail(ErrorKind::io, "{}: disk full: {} bytes needed, {} available{}", path, needed_bytes, available_bytes,
         needed_bytes > available_bytes ? "" : "; a quota or the number of files may be used up");
  }
  if (error_number == EDQUOT) {
    fail(ErrorKind::io, "{}: disk full: {} bytes needed, the quota is used up ({} available on the disk)",
         path, needed_bytes, available_bytes);
  }
  fail_io(operation, path, error_number);
}

PosixFile::~PosixFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

FileStatus PosixFile::status() {
  struct stat raw;
  if (uninterrupted([&] { return fstat(descriptor_, &raw); }) != 0) fail_io("stat", path(), errno);
  return to_status(raw);
}

std::uint64_t PosixFile::size() { return status().size; }

void PosixFile::read(std::uint64_t byte_offset, std::span<std::byte> into) {
  std::size_t done = 0;
  while (done < into.size()) {
    const auto length = std::min(into.size() - done, largest_transfer);
    const auto offset = to_offset(byte_offset + done, path());
    const auto count = uninterrupted([&] { return pread(descriptor_, into.data() + done, length, offset); });
    if (count < 0) fail_io("read", path(), errno);
    if (count == 0) {
      fail_corrupt("{}: short read: {} bytes expected at byte {}, {} there", path(), into.size(), byte_offset,
                   done);
    }
    done += static_cast<std::size_t>(count);
  }
}

bool PosixFile::takes_parallel_writes() {
  if (!parallel_writes_) {
    struct statfs raw;
    const bool known = uninterrupted([&] { return fstatfs(descriptor_, &raw); }) == 0;
    parallel_writes_ = known && cairn::takes_parallel_writes(static_cast<std::uint32_t>(raw.f_type));
  }
  return *parallel_writes_;
}

void PosixFile::write(std::uint64_t byte_offset, std::span<const std::byte> bytes) {
  std::unique_lock turn(write_turn_);
  const bool is_parallel = takes_parallel_writes();
  if (is_parallel) turn.unlock();
  const std::size_t most = is_parallel ? largest_transfer : largest_write;
  std::size_t done = 0;
  while (done < bytes.size()) {
    const std::uint64_t at = byte_offset + done;
    const auto length = std::min<std::size_t>(bytes.size() - done, most - at % most);
    const auto offset = to_offset(at, path());
    const auto count =
        uninterrupted([&] { return pwrite(descriptor_, bytes.data() + done, length, offset); });
    if (count < 0) {
      const int error_number = errno;
      fail_write("write", path(), error_number, bytes.size() - done, available_bytes(descriptor_));
    }
    done += static_cast<std::size_t>(count);
  }
}

std::uint64_t PosixFile::copy_from(File& source, std::uint64_t from, std::uint64_t to, std::uint64_t bytes) {
  const auto* const file = dynamic_cast<const PosixFile*>(&source);
  if (file == nullptr) return 0;
  std::uint64_t done = 0;
  while (done < bytes) {
    const auto length = std::min<std::uint64_t>(bytes - done, largest_transfer);
    const auto count = uninterrupted([&] {
      loff_t in = to_offset(from + done, source.path()), out = to_offset(to + done, path());
      return copy_file_range(file->descriptor_, &in, descriptor_, &out, length, 0);
    });
    if (count < 0 && copy_unsupported(errno)) break;
    if (count < 0) {
      const int error_number = errno;
      fail_write("copy to", path(), error_number, bytes - done, available_bytes(descriptor_));
    }
    // some file systems copy nothing of a file they have not read: reading tells that from its end
    if (count == 0) break;
    done += static_cast<std::uint64_t>(count);
  }
  return done;
}

void PosixFile::allocate(std::uint64_t size) {
  const auto length = to_offset(size, path());
  // Asked before: a failed fallocate may keep what it got.
  const auto available = available_bytes(descriptor_);
  if (uninterrupted([&] { return fallocate(descriptor_, 0, 0, length); }) != 0) {
    const bool optional = errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL;
    if (!optional) fail_write("fallocate", path(), errno, size, available);
  }
  if (uninterrupted([&] { return ftruncate(descriptor_, length); }) != 0) {
    fail_write("ftruncate", path(), errno, size, available);
  }
}

void PosixFile::sync() {
  if (uninterrupted([&] { return fsync(descriptor_); }) == 0) return;
  const int error_number = errno;
  fail_write("fsync", path(), error_number, size(), available_bytes(descriptor_));
}

void PosixFile::close() {
  if (descriptor_ < 0) return;
  const int result = ::close(std::exchange(descriptor_, -1));
  // After EINTR Linux has closed the descriptor all the same.
  if (result != 0 && errno != EINTR) fail_write("close", path(), errno, 0, 0);
}

bool PosixFile::try_lock() { return try_lock(F_WRLCK); }

bool PosixFile::try_lock_shared() { return try_lock(F_RDLCK); }

bool PosixFile::try_lock(short kind) {
  struct flock whole_file = {};
  whole_file.l_type = kind;
  whole_file.l_whence = SEEK_SET;
  if (uninterrupted([&] { return fcntl(descriptor_, F_OFD_SETLK, &whole_file); }) == 0) return true;
  if (errno == EAGAIN || errno == EACCES) return false;
  if (locks_unsupported(errno)) return true;
  fail_io("lock", path(), errno);
}

}  // namespace cairn
