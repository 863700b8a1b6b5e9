// SPDX-License-Identifier: BSD-3-Clause
// Where a consolidated file goes: the rules of `cairn consolidate SRC DST`. Local; for the coordinator.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cairn/storage.hpp"
#include "storage/atomic_outputs.hpp"

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

/// The directory that `file` goes into: of a link, that of what it points to.
std::string directory_for(FileSystem& files, const std::string& file);

/// Refuses (io) directories that cannot be written to, and devices with less room than all that goes there
/// needs together: `wanted`, where an unlocked leftover that will be discarded or taken up counts as room if
/// `takes_leftovers`; and `named`, files under their final names, where what is there counts. Makes nothing:
/// of directories that are missing the nearest one that exists is asked. Returns the free bytes of each
/// wanted one's device.
std::vector<std::uint64_t> check_room(FileSystem& files, std::span<const AtomicOutputs::Wanted> wanted,
                                      bool takes_leftovers,
                                      std::span<const AtomicOutputs::Wanted> named = {});

}  // namespace cairn
