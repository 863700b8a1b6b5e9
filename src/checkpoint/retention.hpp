// SPDX-License-Identifier: BSD-3-Clause
// Taking iterations out of a tree (docs/publishing.md). Local.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/storage.hpp"
#include "cairn/training.hpp"

namespace cairn {

inline constexpr std::string_view kPartEnding = ".cairn-part", kRemovedEnding = ".cairn-removed";

/// `.iter_X.cairn-removed`: what is being removed. Nothing in it is a checkpoint any more.
std::string removed_path_for(const std::string& iteration);
/// `.iter_X.cairn-part`: an iteration that is being saved.
std::string part_path_for(const std::string& iteration);

/// Takes an iteration out of the tree: locks the `.metadata` of its components, renames it, makes the new
/// name durable with `sync`. False: somebody reads it, and nothing has changed. Throws what is in the way, a
/// link as unsupported. What has its hidden name already is removed before.
bool take_out(FileSystem& files, const std::string& iteration, const std::vector<std::string>& components,
              bool sync);

/// Removes what a hidden path holds, `.metadata` files first: also of killed removals.
void remove_hidden(FileSystem& files, const std::string& path);
/// The hidden paths in a directory that end so.
std::vector<std::string> hidden_paths(FileSystem& files, const std::string& directory,
                                      std::string_view ending);

struct PruneMode {
  bool dry_run = false;
  bool sync = true;
  /// Those too that stay whatever they are, beside the newest: to report broken ones.
  bool judges_all = true;
};

/// prune() of the tree whose iterations lie in `directory`.
PruneReport prune_directory(FileSystem& files, const std::string& directory, const RetentionRule& rule,
                            const PruneMode& mode);

}  // namespace cairn
