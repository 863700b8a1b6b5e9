// SPDX-License-Identifier: BSD-3-Clause
// What kind of checkpoint a path is, told from content, never from the name alone, and which checkpoint a
// path stands for. Local; asks the file system.
#pragma once

#include <string>
#include <vector>

#include "cairn/storage.hpp"

namespace cairn {

struct Located {
  enum class Kind { dcp, torch_file } kind;
  std::string path;    ///< the directory, or the file
  std::string format;  ///< what the given path is: "dcp", "torch", "tree", "accelerate"
  std::string note;    ///< a sentence for stderr when another path than the given one was taken; else empty
};

/// A file as a name in the directory that it lies in.
struct FilePlace {
  std::string directory, name;
};
FilePlace place_of(const std::string& file);

/// The checkpoint to read for `path`:
/// - a bare DCP directory: itself;
/// - a training tree's root (it or its checkpoints/ holds latest_checkpoint.txt): the model of the iteration
///   that the pointer names; an iteration: its model; an Accelerate / HF Trainer parent: its model;
/// - any other directory with exactly one checkpoint one or two levels below: that one;
/// - a torch file: itself.
/// Throws not_found when nothing is there, when a tree's pointer is stale or broken, and when there are
/// several to choose from (the sentence lists them); unsupported with a sentence that says what it is for
/// kinds that are recognised and not read, at `path` or at the place taken: Lightning and Megatron folders,
/// per-rank metadata, Hugging Face's DCP format, safetensors and HDF5 files, torch files before 1.6,
/// ByteCheckpoint, torch_checkpointing, DeepSpeed, shards whose .metadata is lost.
Located locate_checkpoint(FileSystem& files, const std::string& path);

/// Throws unsupported for a torch file.
void require_directory(const Located& located);

/// Everything that `path` stands for, at least one: every directory of an iteration or Accelerate parent that
/// holds a checkpoint, each one below any other parent, a torch file. Only the first carries the note. Throws
/// as above, also when one of several is of a kind that is not read, has lost its .metadata, or cannot be
/// looked into: none is passed over.
std::vector<Located> locate_for_verify(FileSystem& files, const std::string& path);

}  // namespace cairn
