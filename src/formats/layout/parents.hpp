// SPDX-License-Identifier: BSD-3-Clause
// Directories that hold checkpoints below them. Local.
#pragma once

#include <string>
#include <vector>

#include "formats/layout/folder.hpp"

namespace cairn::layout {

/// Throws unsupported when `folder` is a training tree's root, its checkpoints/ directory, one of its
/// iterations, or an Accelerate / HF Trainer parent; the sentence names the path to pass.
void refuse_known_parents(FileSystem& files, const Folder& folder);

struct Found {
  std::vector<std::string> directories;  ///< paths of directories that hold a .metadata, at most 11
  std::string unreadable;                ///< the first directory that could not be looked into; empty: none
};

/// Directories one or two levels below that hold a `.metadata`. Looks into a bounded number of directories.
Found checkpoints_below(FileSystem& files, const Folder& folder);

}  // namespace cairn::layout
