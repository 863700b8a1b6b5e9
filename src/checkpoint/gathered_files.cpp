// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/gathered_files.hpp"

#include "base/fail.hpp"
#include "base/text.hpp"

namespace cairn {
namespace {

class RemoteFile final : public File {
 public:
  RemoteFile(const std::string& path, std::uint32_t index, std::uint64_t bytes,
             const GatheredFileSystem::Read& read)
      : File(path), index_(index), bytes_(bytes), read_(read) {}

  std::uint64_t size() override { return bytes_; }
  FileStatus status() override { return {FileType::regular, bytes_, 0, 0, 0}; }
  void read(std::uint64_t byte_offset, std::span<std::byte> into) override {
    if (byte_offset > bytes_ || into.size() > bytes_ - byte_offset) {
      fail_corrupt("{}: short read: {} bytes expected at byte {} of {}", path(), into.size(), byte_offset,
                   bytes_);
    }
    read_(index_, byte_offset, into);
  }

  void write(std::uint64_t, std::span<const std::byte>) override { refuse(); }
  std::uint64_t copy_from(File&, std::uint64_t, std::uint64_t, std::uint64_t) override { refuse(); }
  void allocate(std::uint64_t) override { refuse(); }
  void sync() override { refuse(); }
  void close() override {}
  bool try_lock() override { refuse(); }
  bool try_lock_shared() override { refuse(); }

 private:
  [[noreturn]] void refuse() const {
    fail(ErrorKind::io, "{}: a file of another rank is for reading", escape_name(path()));
  }

  std::uint32_t index_;
  std::uint64_t bytes_;
  const GatheredFileSystem::Read& read_;
};

}  // namespace

GatheredFileSystem::GatheredFileSystem(FileSystem& inner, std::string directory,
                                       std::vector<GatheredFile> gathered, int here, Read read)
    : ForwardingFileSystem(inner),
      directory_(std::move(directory)),
      gathered_(std::move(gathered)),
      read_(std::move(read)) {
  for (std::uint32_t i = 0; i < gathered_.size(); ++i) {
    if (gathered_[i].owner != here) by_path_.emplace(directory_ + "/" + gathered_[i].name, i);
  }
}

std::unique_ptr<File> GatheredFileSystem::open_read(const std::string& path) {
  const auto found = by_path_.find(path);
  if (found == by_path_.end()) return inner_.open_read(path);
  return std::make_unique<RemoteFile>(path, found->second, gathered_[found->second].bytes, read_);
}

std::optional<FileStatus> GatheredFileSystem::status(const std::string& path, bool follow_symlink) {
  const auto found = by_path_.find(path);
  if (found == by_path_.end()) return inner_.status(path, follow_symlink);
  const GatheredFile& file = gathered_[found->second];
  return FileStatus{FileType::regular, file.bytes, file.modified_ns, 0, 0};
}

std::string GatheredFileSystem::resolve(const std::string& path) {
  if (by_path_.contains(path)) return resolve(directory_) + path.substr(directory_.size());
  if (path != directory_) return inner_.resolve(path);
  try {
    return inner_.resolve(path);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::not_found) throw;
    return path;
  }
}

}  // namespace cairn
