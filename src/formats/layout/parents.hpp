// SPDX-License-Identifier: BSD-3-Clause
// Directories that hold checkpoints below them. Local.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "formats/layout/folder.hpp"

namespace cairn::layout {

/// A parent whose parts have known roles.
struct Parent {
  std::string what;        ///< "a training tree", …
  std::string format;      ///< "tree" or "accelerate"
  std::string model;       ///< the directory that stands for the whole
  std::string components;  ///< the directory whose subdirectories are its parts; empty: the model is all
  std::string beside;      ///< words about what else there is; may be empty
};

/// nullopt when `folder` is neither a training tree's root or checkpoints/ directory, nor one of its
/// iterations, nor an Accelerate / HF Trainer parent. Whether the model is whole is not looked at. Throws
/// not_found when the tree's pointer names no iteration or one without a model, when there are several models
/// or none; the sentence names what to pass instead.
std::optional<Parent> known_parent(FileSystem& files, const Folder& folder);

struct Found {
  std::vector<std::string> directories;  ///< that are checkpoints; one reached by two names once
  std::string unfinished;                ///< the first with shards but no .metadata; empty: none
  std::string unreadable;                ///< the first that could not be looked into; empty: none
  bool all = true;                       ///< false: there are too many entries to look at
};

/// Directories one or two levels below for which `is_checkpoint` holds; it is not looked below those.
Found checkpoints_below(FileSystem& files, const Folder& folder,
                        const std::function<bool(const Folder&)>& is_checkpoint);

/// "a, b, c, …": at most ten of them.
std::string some_of(const std::vector<std::string>& paths);

}  // namespace cairn::layout
