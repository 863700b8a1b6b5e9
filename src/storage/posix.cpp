// SPDX-License-Identifier: BSD-3-Clause
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <memory>

#include "base/fail.hpp"
#include "storage/posix_file.hpp"

namespace cairn {

namespace {

bool is_absent(int error_number) { return error_number == ENOENT || error_number == ENOTDIR; }

bool is_unsupported(int error_number) {
  return error_number == EINVAL || error_number == ENOSYS || error_number == EOPNOTSUPP ||
         error_number == EPERM;
}

std::string without_trailing_slashes(const std::string& path) {
  const auto end = path.find_last_not_of('/');
  return end == std::string::npos ? path.substr(0, 1) : path.substr(0, end + 1);
}

std::string parent_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : without_trailing_slashes(path.substr(0, slash));
}

std::string joined(const std::string& directory, const std::string& name) {
  return directory == "/" ? directory + name : directory + "/" + name;
}

const char* describe(mode_t mode) {
  return S_ISDIR(mode)    ? "a directory"
         : S_ISFIFO(mode) ? "a FIFO"
         : S_ISSOCK(mode) ? "a socket"
         : S_ISLNK(mode)  ? "a symbolic link"
                          : "a device";
}

[[noreturn]] void fail_not_regular(const std::string& path, mode_t mode) {
  fail(ErrorKind::io, "{}: a regular file is needed, this is {}", path, describe(mode));
}

[[noreturn]] void fail_open(const std::string& path, int error_number) {
  struct stat raw;
  if (error_number != ENOENT && lstat(path.c_str(), &raw) == 0 && !S_ISREG(raw.st_mode) &&
      (error_number == ELOOP || !S_ISLNK(raw.st_mode))) {
    fail_not_regular(path, raw.st_mode);
  }
  fail_io("open", path, error_number);
}

// O_NONBLOCK: opening a FIFO must not wait for its other end. Regular files ignore it.
std::unique_ptr<File> open_regular(const std::string& path, int flags) {
  const int descriptor =
      uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); });
  if (descriptor < 0) fail_open(path, errno);
  auto file = std::make_unique<PosixFile>(path, descriptor);
  struct stat raw;
  if (fstat(descriptor, &raw) != 0) fail_io("stat", path, errno);
  if (!S_ISREG(raw.st_mode)) fail_not_regular(path, raw.st_mode);
  return file;
}

std::optional<std::string> real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> text(realpath(path.c_str(), nullptr), &std::free);
  if (text == nullptr) return std::nullopt;
  return std::string(text.get());
}

std::optional<std::string> link_target(const std::string& path) {
  std::string target(PATH_MAX, '\0');
  const auto length = readlink(path.c_str(), target.data(), target.size());
  if (length < 0) return std::nullopt;
  target.resize(static_cast<std::size_t>(length));
  return target;
}

void move_by_link(const std::string& from, const std::string& to) {
  if (::link(from.c_str(), to.c_str()) == 0) {
    if (::unlink(from.c_str()) != 0) fail_io("unlink", from, errno);
    return;
  }
  if (!is_unsupported(errno)) fail_io("link", errno == EEXIST ? to : from, errno);
  // Neither is there (FAT, some FUSE): the check is not atomic with the rename.
  struct stat raw;
  if (lstat(to.c_str(), &raw) == 0) fail_io("rename", to, EEXIST);
  if (::rename(from.c_str(), to.c_str()) != 0) fail_io("rename", from, errno);
}

class PosixFileSystem final : public FileSystem {
 public:
  std::unique_ptr<File> open_read(const std::string& path) override { return open_regular(path, O_RDONLY); }

  std::unique_ptr<File> create_exclusive(const std::string& path) override {
    constexpr int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    const int descriptor = uninterrupted([&] { return ::open(path.c_str(), flags, 0666); });
    if (descriptor < 0) fail_write("create", path, errno, 0, 0);
    return std::make_unique<PosixFile>(path, descriptor);
  }

  std::unique_ptr<File> open_write(const std::string& path) override {
    return open_regular(path, O_RDWR | O_NOFOLLOW);
  }

  std::optional<FileStatus> status(const std::string& path, bool follow_symlink) override {
    struct stat raw;
    const int flags = follow_symlink ? 0 : AT_SYMLINK_NOFOLLOW;
    if (uninterrupted([&] { return fstatat(AT_FDCWD, path.c_str(), &raw, flags); }) == 0) {
      return to_status(raw);
    }
    if (!is_absent(errno)) fail_io("stat", path, errno);
    return std::nullopt;
  }

  std::vector<std::string> list(const std::string& path) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path.c_str()), &closedir);
    if (directory == nullptr) fail_io("list", path, errno);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = readdir(directory.get())) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
      errno = 0;
    }
    if (errno != 0) fail_io("list", path, errno);
    std::ranges::sort(names);
    return names;
  }

  void make_directories(const std::string& path) override {
    const auto directory = without_trailing_slashes(path);
    const auto before = status(directory, true);
    if (before && before->type == FileType::directory) return;
    if (before) fail(ErrorKind::io, "{}: a directory is needed, this is a file", directory);
    const auto parent = parent_of(directory);
    if (parent != directory) make_directories(parent);
    if (::mkdir(directory.c_str(), 0777) != 0) {
      const int error_number = errno;
      const auto now = status(directory, true);
      if (now && now->type == FileType::directory) return;  // somebody was faster
      fail_write("mkdir", directory, error_number, 0, 0);
    }
    sync_directory(parent);
  }

  void rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) fail_write("rename to " + to, from, errno, 0, 0);
  }

  void rename_no_replace(const std::string& from, const std::string& to) override {
    if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return;
    if (errno == EEXIST) fail_io("rename", to, errno);
    if (!is_unsupported(errno)) fail_write("rename to " + to, from, errno, 0, 0);
    move_by_link(from, to);
  }

  void unlink(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) fail_io("unlink", path, errno);
  }

  void remove_directory(const std::string& path) override {
    if (::rmdir(path.c_str()) != 0) fail_io("rmdir", path, errno);
  }

  void link(const std::string& from, const std::string& to) override {
    if (::link(from.c_str(), to.c_str()) != 0) fail_write("link to " + to, from, errno, 0, 0);
  }

  void sync_directory(const std::string& path) override {
    const int descriptor =
        uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
    if (descriptor < 0) fail_io("open", path, errno);
    PosixFile directory(path, descriptor);
    const int result = uninterrupted([&] { return fsync(descriptor); });
    const bool has_no_sync = errno == EINVAL || errno == EROFS || errno == EOPNOTSUPP;
    if (result != 0 && !has_no_sync) fail_io("fsync", path, errno);
  }

  std::uint64_t free_bytes(const std::string& path) override {
    const auto room = volume(path);
    return std::uint64_t{room.f_bavail} * room.f_frsize;
  }

  bool writable_directory(const std::string& path) override {
    const auto found = status(path, true);
    if (!found || found->type != FileType::directory) fail_io("access", path, found ? ENOTDIR : ENOENT);
    if (faccessat(AT_FDCWD, path.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
      if (errno == EACCES || errno == EROFS || errno == EPERM) return false;
      fail_io("access", path, errno);
    }
    return (volume(path).f_flag & ST_RDONLY) == 0;
  }

  std::string resolve(const std::string& path) override {
    constexpr int longest_chain = 40;  // as the kernel counts
    if (path.empty()) fail_io("resolve", path, ENOENT);
    std::string current = without_trailing_slashes(path);
    for (int links = 0; links <= longest_chain; ++links) {
      if (const auto real = real_path(current)) return *real;
      if (errno != ENOENT) fail_io("resolve", path, errno);
      const auto parent = real_path(parent_of(current));
      if (!parent) fail_io("resolve", path, errno);
      const auto target = link_target(current);
      if (!target) return joined(*parent, current.substr(current.rfind('/') + 1));
      current = without_trailing_slashes(target->front() == '/' ? *target : joined(*parent, *target));
    }
    fail_io("resolve", path, ELOOP);
  }

  std::string type_name(const std::string& path) override {
    struct statfs raw;
    if (uninterrupted([&] { return statfs(path.c_str(), &raw); }) != 0) fail_io("statfs", path, errno);
    return file_system_name(static_cast<std::uint32_t>(raw.f_type));
  }

 private:
  static struct statvfs volume(const std::string& path) {
    struct statvfs room;
    if (uninterrupted([&] { return statvfs(path.c_str(), &room); }) != 0) fail_io("statvfs", path, errno);
    return room;
  }
};

}  // namespace

FileSystem& posix_file_system() {
  static PosixFileSystem files;
  return files;
}

}  // namespace cairn
