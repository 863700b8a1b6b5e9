// SPDX-License-Identifier: BSD-3-Clause
// Files of a checkpoint as a rank sees them that cannot read them itself, such as those of other ranks.
// Local.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "storage/forwarding.hpp"

namespace cairn {

/// A file that one rank reads for others.
struct GatheredFile {
  std::string name;  ///< inside the checkpoint's directory
  int owner = 0;     ///< the rank that reads it
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;  ///< as the owner sees it; known on rank 0
};

/// In place of a rank: no file is read here.
inline constexpr int kAllElsewhere = -1;

/// Everything is passed on, but for files that another rank than `here` owns: they are there with size and
/// time as it reported, and reads go to `read`.
class GatheredFileSystem final : public ForwardingFileSystem {
 public:
  /// `file` is an index into `gathered`.
  using Read = std::function<void(std::uint32_t file, std::uint64_t byte_offset, std::span<std::byte> into)>;

  GatheredFileSystem(FileSystem& inner, std::string directory, std::vector<GatheredFile> gathered, int here,
                     Read read);

  std::unique_ptr<File> open_read(const std::string& path) override;
  std::optional<FileStatus> status(const std::string& path, bool follow_symlink) override;
  /// The directory need not exist here. The owners have seen that no link leaves it.
  std::string resolve(const std::string& path) override;

 private:
  std::string directory_;
  std::vector<GatheredFile> gathered_;
  Read read_;
  std::unordered_map<std::string, std::uint32_t> by_path_;  // of those that `read` is for
};

}  // namespace cairn
