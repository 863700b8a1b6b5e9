// SPDX-License-Identifier: BSD-3-Clause
// Row: checkpoint. Saving a live state as a DCP directory, every rank its own files.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/communicator.hpp"
#include "cairn/error.hpp"
#include "cairn/live_state.hpp"
#include "cairn/plan.hpp"
#include "cairn/storage.hpp"

namespace cairn {

struct SaveOptions {
  SavePlanOptions plan;  ///< who writes replicas, how many files a rank has
  /// The directory may hold a checkpoint already: it stays whole until the new one is published, and goes
  /// then. Otherwise it is an error.
  bool overwrite = false;
  bool sync = true;  ///< fsync of every file before the checkpoint is published
  /// Write `cairn.manifest` too: where every item lies and its CRC-32 (docs/publishing.md).
  bool manifest = true;
  /// Compare what the ranks hold of replicated tensors and objects, by hash; differences are an error before
  /// anything is written. Reads all of the state once more.
  bool check_replicas = false;
  /// How late the directory that rank 0 made may be seen by the other ranks.
  double visibility_timeout_s = 30;
  /// What `.metadata` calls the checkpoint, where it will be moved to another place; empty: the directory.
  std::string checkpoint_id;
  /// A torch file beside the shards, which appears with them: what makes the directory more than a DCP
  /// directory for the program that reads it (docs/formats.md).
  struct Companion {
    std::string file;  ///< `meta.pt` of Lightning, `common.pt` of Megatron; a plain name; alike on all ranks
    Object value;      ///< a dict; rank 0's is written
  };
  std::optional<Companion> companion;
  /// A rank that does not get on for so long ends the job, as in ConsolidateOptions; 0: never. The same on
  /// all ranks. Not for saves in the background.
  double stall_timeout_s = 0;
  std::function<void(const Error&)> stalled;
  int threads = 0;                         ///< I/O threads of one rank, as in ConsolidateOptions
  std::uint64_t max_memory = 64ull << 20;  ///< data buffers of one rank, in bytes
};

/// The same on all ranks.
struct SaveReport {
  std::string path;  ///< of the directory, as given
  std::uint64_t tensors = 0, objects = 0, files = 0;
  std::uint64_t written_bytes = 0;   ///< of all shard files
  bool planned = true;               ///< false: the plan of an earlier save was used again
  double plan_s = 0, seconds = 0;    ///< rank 0's
  std::uint64_t peak_rss_bytes = 0;  ///< VmHWM, the largest of all ranks
  std::vector<std::string> warnings;
};

/// Saves states of a job again and again: keeps the plans of the last few shapes of the state, so that one
/// whose names, types, layouts and sizes have not changed is not planned again. One object a rank.
class Saver {
 public:
  /// Collective. Both outlive it. Works on its own duplicate of `comm`.
  Saver(Communicator& comm, FileSystem& files);
  ~Saver();

  /// Collective: all ranks pass the same directory and options; one save at a time. Writes the checkpoint
  /// that torch.distributed.checkpoint's load reads, `__R_i.distcp` of each rank R and `.metadata`, and
  /// publishes it by renaming `.metadata`, when all the rest is there (and durable, with sync).
  ///
  /// On failure every rank throws the same Error, nothing is published, what was written is removed, and a
  /// checkpoint that was there is as it was. already_exists: there is one, or another process is saving
  /// there. mismatch: the ranks' states contradict each other (plan_save), or replicas differ.
  /// invalid_argument: the options differ between ranks.
  SaveReport save(const LiveState& state, const std::string& directory, const SaveOptions& options = {});

 private:
  struct Plans;
  std::unique_ptr<Communicator> comm_;
  FileSystem& files_;
  std::unique_ptr<Plans> plans_;
};

/// Collective. One save, as by a Saver of its own.
SaveReport save(Communicator& comm, FileSystem& files, const LiveState& state, const std::string& directory,
                const SaveOptions& options = {});

}  // namespace cairn
