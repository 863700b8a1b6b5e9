// SPDX-License-Identifier: BSD-3-Clause
// Which ranks see which files of a checkpoint. Disks of nodes differ, and network file systems lag: every
// rank says what it sees, rank 0 decides, the others follow. All of it is collective.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cairn/checkpoint.hpp"
#include "cairn/communicator.hpp"
#include "cairn/metadata.hpp"
#include "cairn/storage.hpp"
#include "checkpoint/consolidation_plan.hpp"
#include "checkpoint/gathered_files.hpp"
#include "checkpoint/run_watch.hpp"

namespace cairn {

/// Where the checkpoint is, and who sees its metadata: `.metadata`, the torch or safetensors file, the index,
/// or the first of Hugging Face's shards.
struct SourceSite {
  SourceKind kind = SourceKind::dcp;
  std::string directory;    ///< that its files lie in
  std::string note;         ///< see Located::note
  GatheredFile metadata;    ///< owned by rank 0 where it sees it, else by the lowest rank that does
  std::string companion{};  ///< see Located
  std::vector<std::string> components{};  ///< see Located
};

/// What may be read.
enum class Sources : std::uint8_t {
  directories,  ///< DCP
  sharded,      ///< all but torch files
  all,
};

/// As locate_checkpoint, or, for a whole iteration, locate_iteration; what may not be read throws
/// unsupported. The other ranks look only when rank 0 finds none; when nobody does, rank 0's error is thrown.
SourceSite find_source(Communicator& comm, RunWatch& watch, const std::string& path, Sources sources,
                       bool whole_iteration = false);

/// What is to be found, and how.
struct ShardSearch {
  std::string directory;
  WriteMode mode = WriteMode::automatic;
  /// Files that nobody sees, that are too short for their items, or that have another size elsewhere are
  /// looked for again with growing pauses, for so long; with WriteMode::shared also those that some rank does
  /// not see. A world of one rank does not wait, and leaves missing shards to the check of the structure.
  double timeout_s = 30;
  bool follow_links = false;  ///< out of the directory; else such a shard is corrupt
  /// Called on rank 0, once, after some seconds of that: a sentence that names what is waited for.
  std::function<void(const std::string&)> note = {};
};

struct ShardSites {
  bool gather = false;  ///< never in a world of one
  /// The files of the catalogue, in its order. Empty on ranks other than 0 without `gather`. Each has one
  /// owner among the ranks that see it, so that the bytes of ranks are even.
  std::vector<GatheredFile> files;
  std::string note;  ///< why it is gather although nobody asked for that; else empty
};

/// `catalog` is looked at on rank 0 only. Throws corrupt when nobody sees a shard, naming what lies in it and
/// where it was looked for; mismatch when ranks see different sizes; not_found when WriteMode::shared is
/// asked for and a rank does not see a shard.
ShardSites find_shards(Communicator& comm, RunWatch& watch, const Catalog* catalog,
                       const ShardSearch& search);

}  // namespace cairn
