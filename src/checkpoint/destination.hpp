// SPDX-License-Identifier: BSD-3-Clause
// Where a consolidated file goes: the rules of `cairn consolidate SRC DST`. Local; for the coordinator.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "cairn/storage.hpp"

namespace cairn {

/// Throws io when something is at `file` that is no regular file, mismatch when `file` (a symlink: what it
/// points to) lies inside `source`, a directory, or is `source`, a file (empty: none); already_exists when a
/// file is there and `overwrite` is false.
void check_output(FileSystem& files, const std::string& source, const std::string& file, bool overwrite);

/// The same for a directory that a checkpoint is to be written to, which exists when it has a `.metadata`.
void check_output_directory(FileSystem& files, const std::string& source, const std::string& directory,
                            bool overwrite);

/// The file to write for `destination`: itself; or model.pth in it when it is a directory or ends in '/'.
/// Throws invalid_argument when empty, and as check_output does.
std::string choose_destination(FileSystem& files, const std::string& source, const std::string& destination,
                               bool overwrite);

/// Bytes that outputs need, by the device they go to.
using WantedRoom = std::map<std::uint64_t, std::uint64_t>;

/// Refuses (io) a directory that cannot be written to or whose device has less room than `bytes` and those
/// `wanted` before; an unlocked leftover that will be discarded counts as room. prepare_directory makes
/// missing parent directories first; check_directory makes nothing and asks the nearest one that exists.
/// Returns the free bytes.
std::uint64_t check_directory(FileSystem& files, const std::string& file, std::uint64_t bytes, bool overwrite,
                              WantedRoom& wanted);
void prepare_directory(FileSystem& files, const std::string& file, std::uint64_t bytes, bool overwrite,
                       WantedRoom& wanted);

}  // namespace cairn
