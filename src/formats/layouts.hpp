// SPDX-License-Identifier: BSD-3-Clause
// What kind of checkpoint a path is, told from content, never from the name alone. Local; asks the file
// system.
#pragma once

#include <string>

#include "cairn/storage.hpp"

namespace cairn {

/// The directory to read when `path` is a bare DCP directory. Otherwise throws: not_found when nothing is
/// there, unsupported with a sentence that says what it is and, where one can be named, which path to pass
/// instead (Lightning and Megatron folders, Accelerate parents, training trees and iterations, per-rank
/// metadata, Hugging Face's DCP format, torch, safetensors and HDF5 files, ByteCheckpoint,
/// torch_checkpointing, DeepSpeed, shards whose .metadata is lost, parents of one or several checkpoints).
std::string require_dcp_directory(FileSystem& files, const std::string& path);

}  // namespace cairn
