// SPDX-License-Identifier: BSD-3-Clause
// Removing a directory with everything in it.
#pragma once

#include <string>
#include <string_view>

#include "cairn/storage.hpp"

namespace cairn {

/// Files called `first` go before all others, wherever they are in it. Links are removed, not followed. What
/// somebody else removes meanwhile is no failure, nor is a tree that is not there. Throws io with the rest
/// left. Local.
void remove_tree(FileSystem& files, const std::string& path, std::string_view first);

}  // namespace cairn
