// SPDX-License-Identifier: BSD-3-Clause
// A DCP directory that becomes a checkpoint at once, by the renaming of its `.metadata` (docs/publishing.md).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/storage.hpp"
#include "formats/dcp/replaced_files.hpp"
#include "storage/atomic_outputs.hpp"

namespace cairn::dcp {

inline constexpr std::string_view kMetadataName = ".metadata";
inline constexpr std::string_view kManifestName = "cairn.manifest";

/// `__{rank}_{index}.distcp`, as torch's FileSystemWriter names its files.
std::string shard_name(int rank, std::uint32_t index);
struct ShardNumbers {
  int rank;
  std::uint32_t index;
};
/// nullopt for other names.
std::optional<ShardNumbers> shard_numbers(std::string_view name);

/// Held by the coordinator alone, from before the first shard is made until the checkpoint is published.
/// Local.
///
/// Shards are new files under their final names, which nothing refers to until then: shard_name(rank,
/// first_index() + i), made by FileSystem::create_exclusive, synced and closed by whoever writes them.
class DirectoryOutput {
 public:
  /// Makes the directory where it is missing and takes its lock: that of the temporary of `.metadata`. What a
  /// killed save left there goes: its temporaries now, its shards, which are nobody's, with `overwrite` when
  /// the new checkpoint is published. Throws already_exists when there is a checkpoint and not `overwrite`,
  /// when a living process is saving there, and when one of the files is a link; `directory` may be one.
  /// Files called `beside` will appear with it: the manifest, the companion of a Lightning or Megatron
  /// folder.
  static DirectoryOutput create(FileSystem& files, const std::string& directory, bool overwrite,
                                const std::vector<std::string>& beside);
  struct Place {
    std::string directory;  ///< absolute, links resolved
    std::uint32_t first_index;
  };
  /// Where create() would begin. Throws what create() would find in the way, and makes nothing; without
  /// `discard_leftover` also for a temporary that a killed run has left, unless it may overwrite.
  static Place check(FileSystem& files, const std::string& directory, bool overwrite, bool discard_leftover,
                     const std::vector<std::string>& beside);
  DirectoryOutput(DirectoryOutput&& other) noexcept;
  DirectoryOutput& operator=(DirectoryOutput&&) = delete;
  /// Without publish() the new shards are removed, and the temporaries. Failures to remove are ignored.
  ~DirectoryOutput();

  /// Absolute, links resolved.
  const std::string& directory() const { return directory_; }
  /// Above those of all shards that are there.
  std::uint32_t first_index() const { return first_index_; }

  using Write = std::function<void(File&)>;
  /// All shards are there, closed, and with `sync` durable. Writes `.metadata`, then the files beside it, in
  /// their order, and publishes them together, `.metadata` last; then the files of the checkpoint that was
  /// there before go, its manifest and companion too where the new one has none of that name. Throws with
  /// nothing published, but where is_published() says otherwise: then only making the names durable failed.
  /// What cannot be removed afterwards is a warning.
  void publish(const Write& metadata, const std::vector<Write>& beside, bool sync,
               std::vector<std::string>& warnings);
  bool is_published() const { return published_; }

 private:
  DirectoryOutput(FileSystem& files, std::string directory, AtomicOutputs outputs, bool overwrite,
                  const std::vector<std::string>& beside);
  std::string path(std::string_view name) const;
  void write(std::size_t output, const Write& write) const;
  void remove_new_shards() const;

  FileSystem* files_;  // null: moved from
  std::string directory_;
  AtomicOutputs outputs_;  // .metadata, then those beside it
  bool published_ = false;
  ReplacedFiles replaced_;
  std::uint32_t first_index_ = 0;
};

}  // namespace cairn::dcp
