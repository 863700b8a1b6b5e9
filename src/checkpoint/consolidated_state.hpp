// SPDX-License-Identifier: BSD-3-Clause
// What goes into the files of a consolidation. Local; for the coordinator.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cairn/checkpoint.hpp"
#include "checkpoint/output_catalog.hpp"
#include "formats/checkpoint_source.hpp"
#include "formats/torch_file/state_pickle.hpp"

namespace cairn {

/// `<file>.objects.pth`: where ObjectPolicy::safe puts the objects that do not load safely.
std::string objects_path_for(const std::string& file);

/// One file: its pickle with the records it refers to, and what is in it.
struct FileState : torch_file::StatePickle {
  std::uint64_t tensors = 0, objects = 0;
  std::vector<std::uint32_t> entries;  ///< of its catalogue
};

struct ConsolidatedState {
  FileState main;
  std::optional<FileState> unsafe_objects;  ///< for objects_path_for(): no tensors of the catalogue
  std::vector<std::string> skipped, warnings;
};

/// Reads the objects of the source (with `drop` none) and pickles the state: `chosen`, or all of the source
/// when null. Records name tensors by their indices in the source. `file` is the output, for messages;
/// `metadata_bytes` bounds what lists may be padded with.
///
/// What is left out of a file is left out as if the checkpoint had never held it: its key is absent, a list
/// position before a remaining element is None, a container without remaining elements is absent.
ConsolidatedState consolidate_state(CheckpointSource& source, const OutputCatalog* chosen,
                                    const ConsolidateOptions& options, const std::string& file,
                                    std::uint64_t metadata_bytes);

}  // namespace cairn
