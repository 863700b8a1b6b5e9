// SPDX-License-Identifier: BSD-3-Clause
// What a new checkpoint in a DCP directory makes useless there. Local.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cairn/storage.hpp"

namespace cairn::dcp {

/// The number of new shards: above those of all that are there. Throws already_exists when none is left.
std::uint32_t next_shard_index(FileSystem& files, const std::string& directory);

class ReplacedFiles {
 public:
  ReplacedFiles() = default;
  /// Looked for before the new checkpoint is published: shards with a number below `first_index`, which is
  /// the new ones'; with `overwrite`, beside a `.metadata`, its manifest and companion, but for those called
  /// `beside`, which are replaced by rename.
  ReplacedFiles(FileSystem& files, std::string directory, std::uint32_t first_index, bool overwrite,
                const std::vector<std::string>& beside);
  /// Afterwards: with `overwrite` they go. What cannot be removed, and shards that stay, are warnings.
  void remove(FileSystem& files, std::vector<std::string>& warnings) const;

 private:
  std::string directory_;
  bool overwrite_ = false;
  std::vector<std::string> shards_, beside_;
};

/// Without metadata a manifest describes nothing: where nothing is to be overwritten it goes.
void drop_orphaned_manifest(FileSystem& files, const std::string& directory, bool overwrite);

}  // namespace cairn::dcp
