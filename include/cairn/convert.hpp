// SPDX-License-Identifier: BSD-3-Clause
// Row: checkpoint. Checkpoints of one kind, or laid out for one number of ranks, written as another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cairn/checkpoint.hpp"

namespace cairn {

/// What is written.
enum class ConvertTo : std::uint8_t {
  automatic,    ///< by the destination: see target_of()
  torch_file,   ///< one file that plain torch.load opens
  dcp,          ///< a directory of shards with their `.metadata`
  safetensors,  ///< a file, or a directory of files with an index (docs/format-safetensors.md)
};

/// What becomes of tensors that are the same bytes of a torch file, in safetensors files.
enum class TiedPolicy : std::uint8_t {
  keep,   ///< each is written
  alias,  ///< the first by name is written; the others are recorded as names of it
};

/// Of data in a safetensors file, where nothing is said.
inline constexpr std::uint64_t kMostShardBytes = 5'000'000'000;

/// Of a source that is a DCP directory, a torch file, or safetensors files. From ConsolidateOptions all hold;
/// `alignment`, ObjectPolicy::safe, `ema`, `more_outputs` and CopyMode::kernel are for torch files: with
/// another target they are invalid_argument, and so are options of one target with another.
struct ConvertOptions : ConsolidateOptions {
  ConvertTo to = ConvertTo::automatic;
  /// Of a DCP directory: every tensor that has dimension `dim` is cut along it for so many ranks, as
  /// torch.chunk cuts (and PyTorch's Shard(dim)): pieces of ceil(rows / ranks), the last ones smaller or
  /// none, so that with fewer rows than ranks the first ranks have one each. The others are whole, spread
  /// evenly over the ranks' files.
  int ranks = 1;
  std::size_t dim = 0;
  /// A file of rules, read by rank 0, which say for tensors by their new names otherwise: one a line, a glob,
  /// white space, then `replicated` (whole) or `shard(D)`. The last that matches decides; one that matches no
  /// tensor is not_found, a line that is no rule corrupt. Empty: none.
  std::string layout_file;
  /// "KEY=DIRECTORY" each: what lies under a top-level key becomes a DCP directory of its own in the
  /// destination, one after the other, each published when it is whole. Every top-level key must be named,
  /// and hold a dict. All is checked before the first is written. Empty: one directory.
  std::vector<std::string> split;
  /// Of safetensors files: most bytes of data in one, unless a single tensor has more. Without it a
  /// destination that is a file takes all tensors, a directory is cut at kMostShardBytes.
  std::optional<std::uint64_t> max_shard_bytes;
  TiedPolicy tied = TiedPolicy::keep;
};

/// Local. What `destination` names: a torch file by its extension (.pth, .pt, .ckpt, .bin), a safetensors
/// file
/// (.safetensors), else a DCP directory; an existing directory, and a name that ends in '/', is one too.
/// Throws invalid_argument for extensions of kinds that are not written (.h5, .hdf5).
ConvertTo target_of(FileSystem& files, const std::string& destination);

/// Collective. Writes the checkpoint at options.source anew; all ranks share the bytes, and the result is the
/// same for any number of ranks and threads. A torch file appears as consolidate() says; a DCP directory by
/// its `.metadata`, which is written last; safetensors files back to back, the index last. On failure every
/// rank throws the same Error, what was made is gone, directories too, and an old checkpoint is untouched;
/// with `resume` what was made stays, and its journal beside what appears last. Stored CRCs are compared as
/// consolidate() does; a chunk that its new boxes cut across rows is read once more for that.
ConsolidateReport convert(Communicator& comm, FileSystem& files, const ConvertOptions& options);

/// Collective. As convert() to a DCP directory, from a DCP directory only.
ConsolidateReport reshard(Communicator& comm, FileSystem& files, const ConvertOptions& options);

/// Collective. What convert() and reshard() with these options would do, as dry_run_consolidate() tells it.
/// Of a directory the bytes are those of its shards and of `.metadata`.
DryRunReport dry_run_convert(Communicator& comm, FileSystem& files, const ConvertOptions& options);
DryRunReport dry_run_reshard(Communicator& comm, FileSystem& files, const ConvertOptions& options);

}  // namespace cairn
