// SPDX-License-Identifier: BSD-3-Clause
// What Cairn recognises and does not read, in sentences that name it. Local. Everything here throws
// unsupported, or returns when nothing is recognised.
#pragma once

#include <string>

#include "formats/layout/folder.hpp"

namespace cairn::layout {

/// A directory that holds a .metadata and is more, or something else, than a DCP directory: Lightning,
/// Megatron, ByteCheckpoint.
void refuse_more_than_dcp(const Folder& folder);

/// A directory without .metadata that holds shards: per-rank metadata, torch_checkpointing, DeepSpeed,
/// Megatron, Lightning, and a DCP directory whose .metadata is lost or was never finished.
void refuse_other_sharded(const Folder& folder);

/// A directory of torch files, or of several safetensors files without an index.
void refuse_plain_files(const Folder& folder);

/// A regular file; one that belongs to a DCP directory, Hugging Face's form included, is answered with that
/// directory.
[[noreturn]] void refuse_file(FileSystem& files, const std::string& path);

}  // namespace cairn::layout
