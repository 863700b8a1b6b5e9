// SPDX-License-Identifier: BSD-3-Clause
// A checkpoint of safetensors files: one file, or shards that an index names; and what
// torch.distributed.checkpoint's HuggingFaceStorageWriter writes, shards of boxes without an index. Local.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/metadata.hpp"
#include "cairn/storage.hpp"

namespace cairn::safetensors {

inline constexpr std::string_view kExtension = ".safetensors", kIndexExtension = ".index.json";

/// "shard-00001-model-00001-of-00004.safetensors"
bool is_box_shard(std::string_view name);

/// Where it is. Links may leave the directory: the cache of huggingface_hub consists of such links.
struct Site {
  std::string directory;
  std::string name;       ///< the file, the index, or the first of the shards of boxes
  bool is_boxed = false;  ///< shards of boxes

  bool has_index() const { return !is_boxed && name.ends_with(kIndexExtension); }
};

struct FileList {
  std::vector<std::string> names;  ///< sorted; in the directory, of plain components
  std::uint64_t index_bytes = 0;
};

/// The files that make up the checkpoint. Of an index those that it names, whatever else lies beside them.
/// Throws corrupt for an index that cannot be read as one, that names a tensor twice, or a path that is not
/// plain (formats/dcp/storage_rows).
FileList list_files(FileSystem& files, const Site& site);

struct Contents {
  Catalog catalog;  ///< each chunk the bytes of a box, row-major; files in their order, tensors as the
                    ///< headers have them
  std::vector<std::uint64_t> file_sizes;  ///< by file
  std::uint64_t metadata_bytes = 0;       ///< of headers and index
  std::vector<std::string> notes;
};

/// Reads all headers. Into `faults` goes what read_header finds; a file that is missing; a header that cannot
/// be read; a tensor that two shards hold, or that the index names and its shard has not; boxes that do not
/// tile their tensor, or have two dtypes; a name that is to be another one of two tensors. A tensor of a
/// shard that the index does not name is left out, with a note. Other names of whole tensors, which
/// safetensors.torch.save_model records in `__metadata__` as {other name: name}, are tensors of the catalogue
/// too, after all others, by name, with the same bytes. What is there of any other form (no tensor of the
/// second name, or one of the first) is no such record, nor is the key "format".
Contents read_contents(FileSystem& files, const Site& site, FaultList& faults);

}  // namespace cairn::safetensors
