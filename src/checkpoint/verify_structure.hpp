// SPDX-License-Identifier: BSD-3-Clause
// What can be told of a checkpoint from its metadata and one stat a file. Local.
#pragma once

#include "cairn/checkpoint.hpp"
#include "checkpoint/verify_items.hpp"
#include "formats/layouts.hpp"

namespace cairn {

/// Checks names, bounds, ndim, tiling, every item inside its file, and counts into `report`; shards that
/// nothing refers to and leftovers are warnings. Of a torch file: its directory. Of safetensors files: all
/// that there is; their chunks are counted as unchecked, and with `strict` are faults. Throws what cannot be
/// read at all. Returns what there is to read.
VerifyTask verify_structure(FileSystem& files, const Located& located, bool strict, VerifyReport& report);

}  // namespace cairn
