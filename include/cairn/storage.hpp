// SPDX-License-Identifier: BSD-3-Clause
// Row: storage. Files and directories behind an interface, so that faults can be injected. Local: none of
// these calls talks to other ranks. All of them throw cairn::Error (not_found, already_exists, io) that names
// the path; none is interrupted by signals (EINTR is retried).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cairn {

enum class FileType : std::uint8_t { regular, directory, symlink, other };

struct FileStatus {
  FileType type;
  std::uint64_t size;  ///< bytes
  std::int64_t modified_ns;
  std::uint64_t device, inode;
};

/// An open file. Positional, thread-safe for disjoint ranges. The destructor closes and ignores the result:
/// a writer calls close().
class File {
 public:
  virtual ~File() = default;
  const std::string& path() const { return path_; }

  virtual std::uint64_t size() = 0;
  /// Of the open file itself, whatever its path names by now.
  virtual FileStatus status() = 0;
  /// Reads exactly into.size() bytes; corrupt ("short read") when the file ends before.
  virtual void read(std::uint64_t byte_offset, std::span<std::byte> into) = 0;
  /// Writes all bytes. A full disk is io with "disk full" in the message.
  virtual void write(std::uint64_t byte_offset, std::span<const std::byte> bytes) = 0;
  /// Has the kernel copy `bytes` bytes of `source` from `from` to `to` of this file, shared blocks included
  /// where the file system can (copy_file_range). Returns how many it copied: fewer where it does not do that
  /// between these files; the caller copies the rest. Errors as of write.
  virtual std::uint64_t copy_from(File& source, std::uint64_t from, std::uint64_t to,
                                  std::uint64_t bytes) = 0;
  /// Sets the size and reserves the blocks where the file system can (fallocate; EOPNOTSUPP is not an error).
  virtual void allocate(std::uint64_t size) = 0;
  virtual void sync() = 0;
  virtual void close() = 0;
  /// Takes an exclusive lock that ends with this descriptor (open file description lock; the file is open for
  /// writing). False: another descriptor holds it. True without a lock where the file system has none.
  virtual bool try_lock() = 0;
  /// Likewise a shared one: any number of descriptors hold it at once, none together with an exclusive one.
  /// The file is open for reading.
  virtual bool try_lock_shared() = 0;

 protected:
  explicit File(std::string path) : path_(std::move(path)) {}

 private:
  std::string path_;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  /// A regular file; anything else (a directory, a FIFO, a device) is io, without waiting for a writer.
  virtual std::unique_ptr<File> open_read(const std::string& path) = 0;
  /// O_CREAT|O_EXCL|O_NOFOLLOW, mode 0666 less the umask, open for reading and writing.
  virtual std::unique_ptr<File> create_exclusive(const std::string& path) = 0;
  /// An existing regular file for reading and writing; never follows a symlink, never truncates.
  virtual std::unique_ptr<File> open_write(const std::string& path) = 0;

  /// nullopt where nothing is; a dangling link counts as nothing when links are followed.
  virtual std::optional<FileStatus> status(const std::string& path, bool follow_symlink = true) = 0;
  /// Names in the directory, without "." and "..", sorted by bytes.
  virtual std::vector<std::string> list(const std::string& path) = 0;
  /// mkdir -p; existing directories are fine, new ones are durable in their parents.
  virtual void make_directories(const std::string& path) = 0;
  virtual void rename(const std::string& from, const std::string& to) = 0;
  /// Like rename, but already_exists when `to` is there; atomic where the file system allows it.
  virtual void rename_no_replace(const std::string& from, const std::string& to) = 0;
  virtual void unlink(const std::string& path) = 0;
  /// An empty one.
  virtual void remove_directory(const std::string& path) = 0;
  /// A second name for a file; already_exists when `to` is there, io where the file system has no hard links.
  virtual void link(const std::string& from, const std::string& to) = 0;
  /// Makes renames and creations in the directory durable.
  virtual void sync_directory(const std::string& path) = 0;
  /// Bytes that an unprivileged writer can still store there.
  virtual std::uint64_t free_bytes(const std::string& path) = 0;
  /// Whether entries can be made in the directory by this process (effective ids, read-only mounts);
  /// not_found where no directory is.
  virtual bool writable_directory(const std::string& path) = 0;
  /// The absolute path with all symlinks resolved; what the last link points to need not exist, its directory
  /// must. A loop of links is io.
  virtual std::string resolve(const std::string& path) = 0;
  /// "ext4", "tmpfs", "nfs", … or a number in hex; for reports.
  virtual std::string type_name(const std::string& path) = 0;
};

/// Local. Throws unsupported for a URL (`s3://bucket/name`): it would be taken for a relative path.
void require_path(const std::string& path);

/// The machine's own file system: plain descriptors, pread and pwrite in a loop.
FileSystem& posix_file_system();

}  // namespace cairn
