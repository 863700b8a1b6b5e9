// SPDX-License-Identifier: BSD-3-Clause
// Files that another rank has just made. Local.
#pragma once

#include <memory>
#include <string>

#include "cairn/storage.hpp"

namespace cairn {

/// open_write, tried again with growing pauses while the file is not there yet (network file systems show it
/// late), for at most `timeout_s` seconds.
std::unique_ptr<File> open_write_late(FileSystem& files, const std::string& path, double timeout_s);

}  // namespace cairn
