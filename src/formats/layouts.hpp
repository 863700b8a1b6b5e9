// SPDX-License-Identifier: BSD-3-Clause
// What kind of checkpoint a path is, told from content, never from the name alone, and which checkpoint a
// path stands for. Local; asks the file system.
#pragma once

#include <string>
#include <vector>

#include "cairn/storage.hpp"
#include "formats/safetensors/files.hpp"

namespace cairn {

struct Located {
  enum class Kind {
    dcp,
    torch_file,
    safetensors,  ///< a file, or an index with its shards
    hf_dcp,       ///< shards of boxes, as HuggingFaceStorageWriter writes them
  } kind;
  std::string path;  ///< the directory; or the torch file, the safetensors file, the index
  /// What the given path is: "dcp", "lightning", "megatron", "torch", "safetensors", "hf_dcp", "tree",
  /// "accelerate".
  std::string format;
  std::string note;  ///< a sentence for stderr when another path than the given one was taken; else empty
  std::string companion{};  ///< of a directory: the torch file that belongs to it (layout/companions.hpp)
  std::vector<std::string> components{};  ///< by locate_iteration(): directories in it
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
/// - any other directory with exactly one of these, or of the directories of safetensors files below, one or
///   two levels below: that one (torch files are not looked for);
/// - a torch file, a safetensors file, an index of such: itself;
/// - a directory of safetensors files: model.safetensors.index.json in it, or the only other index, or the
/// only
///   file; Hugging Face's DCP format: the directory of its shards.
/// Throws not_found when nothing is there, when a tree's pointer is stale or broken, and when there are
/// several to choose from (the sentence lists them); unsupported with a sentence that says what it is for
/// kinds that are recognised and not read, at `path` or at the place taken: several safetensors files without
/// an index, HDF5 files, torch files before 1.6, ByteCheckpoint, torch_checkpointing, DeepSpeed, shards whose
/// .metadata is lost.
Located locate_checkpoint(FileSystem& files, const std::string& path);

/// All components of an iteration as one: `path` is the iteration, or a training tree's root, of which the
/// pointer names it. Throws not_found when it is neither, unsupported when one is more than a DCP directory.
Located locate_iteration(FileSystem& files, const std::string& path);

/// Throws unsupported for anything but a DCP directory.
void require_directory(const Located& located);
/// Throws unsupported for a torch file.
void refuse_torch_file(const Located& located);

/// Of Kind::safetensors and Kind::hf_dcp.
safetensors::Site site_of(FileSystem& files, const Located& located);

/// Everything that `path` stands for, at least one: every directory of an iteration or Accelerate parent that
/// holds a checkpoint, each one below any other parent, after a directory its companion, a torch file. Only
/// the first carries the note. Throws as above, also when one of several is of a kind that is not read, has
/// lost its .metadata, or cannot be looked into: none is passed over.
std::vector<Located> locate_for_verify(FileSystem& files, const std::string& path);

}  // namespace cairn
