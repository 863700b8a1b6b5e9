// SPDX-License-Identifier: BSD-3-Clause
// Row: checkpoint. The checkpoints of a training job: a directory of iterations with a pointer to the latest
// one. docs/training.md says what complete means.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/async_save.hpp"
#include "cairn/communicator.hpp"
#include "cairn/error.hpp"
#include "cairn/live_state.hpp"
#include "cairn/load.hpp"
#include "cairn/save.hpp"
#include "cairn/storage.hpp"

namespace cairn {

/// An iteration's directory that was not taken, not removed, …, and why.
struct PassedIteration {
  std::string path, reason;
};

/// The same on all ranks.
struct LatestReport {
  std::string path;                       ///< the iteration's directory; empty: none is complete
  std::optional<std::int64_t> iteration;  ///< its number, where its name has one
  std::vector<std::string> components;    ///< of it; "": the directory itself is the checkpoint
  std::vector<PassedIteration> skipped;   ///< newer ones, the newest first; all when there is none
  std::vector<std::string> warnings;      ///< about the pointer
};

/// Collective. The newest complete iteration of the training tree at `root` (the directory that holds the
/// iterations, or its parent when that is called checkpoints). With `verify_payload` every stored CRC of it
/// is compared too, and what fails is passed over. Throws not_found when there is no tree.
LatestReport find_latest(Communicator& comm, FileSystem& files, const std::string& root,
                         bool verify_payload = false);

/// Which complete iterations stay. The newest one always does, and the one that the pointer names.
struct RetentionRule {
  int keep_last = 0;            ///< so many of the newest; 0: all
  std::int64_t keep_every = 0;  ///< those whose number is a multiple of it; 0: none on that account
};

struct PruneReport {
  std::vector<std::string> removed, kept;  ///< paths, the newest first; with dry_run what would be
  std::vector<PassedIteration> in_use;     ///< would go, but somebody reads them
  std::vector<PassedIteration> broken;     ///< not complete, or not to be looked into: left alone
  std::vector<PassedIteration> failed;     ///< could not be removed
  std::vector<std::string> warnings;
};

/// Local. Removes complete iterations of the tree at `root` that `rule` (keep_last at least 1) does not keep,
/// each one by a rename out of the tree first, and what earlier removals have left. One that somebody reads
/// (any of load, verify, consolidate, convert, reshard, resume) stays. Throws not_found as find_latest does.
PruneReport prune(FileSystem& files, const std::string& root, const RetentionRule& rule,
                  bool dry_run = false);

struct TrainingOptions {
  SaveOptions save;  ///< of every component; overwrite is refused: an iteration is never replaced
  RetentionRule retention;
  AsyncSaveOptions async;  ///< of start_save(); staging_bytes is for all components together
};

/// A component of an iteration, to be saved: `model`, `optim`, `scheduler`, `trainer`, … The name is that of
/// its directory. Of this rank; it outlives the call.
struct SavedComponent {
  std::string name;
  const LiveState& state;
};
struct LoadedComponent {
  std::string name;
  LiveState& state;
};

/// The same on all ranks.
struct IterationReport {
  std::string path;                                            ///< the iteration's directory
  std::vector<std::pair<std::string, SaveReport>> components;  ///< in the order given
  std::vector<std::string> removed;                            ///< iterations that retention removed
  std::vector<std::string> warnings;                           ///< of the components, of retention
  double seconds = 0;                                          ///< rank 0's
};
using AsyncIteration = PendingSave<IterationReport>;

struct ResumeOptions {
  LoadOptions load;  ///< of every component of the job's own iteration
  /// Where a job begins that has no iteration of its own: an iteration or a tree of another job, or, for the
  /// weights alone, a torch file or the DCP directory of a model. Empty: nowhere.
  std::string start_from;
  bool load_training_state = true;  ///< false: of start_from the component `model` only
  LoadOptions start;                ///< of what start_from gives
};

/// The same on all ranks.
struct ResumeReport {
  std::string path;                       ///< what was loaded; empty: nothing, the job begins from nothing
  std::optional<std::int64_t> iteration;  ///< its number; none for weights alone
  bool is_own = false;                    ///< an iteration of this job, not start_from
  std::vector<std::pair<std::string, LoadReport>> components;  ///< that were loaded
  std::vector<PassedIteration> skipped;                        ///< newer iterations, the newest first
  std::vector<std::string> warnings;                           ///< about the pointer
};

/// The checkpoints of one job: `iter_%09d/<component>/` in a directory, and `latest_checkpoint.txt`. One
/// object a rank; one call at a time.
class TrainingCheckpoints {
 public:
  /// Collective: all pass the same directory and options, else invalid_argument on all. Works on its own
  /// duplicate of `comm`; `comm` and `files` outlive it. The directory is made by the first save.
  TrainingCheckpoints(Communicator& comm, FileSystem& files, std::string directory,
                      TrainingOptions options = {});
  /// Collective. Finishes what start_save() has begun. Before MPI_Finalize.
  ~TrainingCheckpoints();
  TrainingCheckpoints(const TrainingCheckpoints&) = delete;

  /// Collective: all ranks name the same components in one order. Saves them one after the other into a
  /// hidden directory, which becomes the iteration's by one rename when all are whole; then the pointer names
  /// it; then retention removes older ones. Plans are kept by component.
  ///
  /// On failure every rank throws the same Error, what was written is gone, and iterations and pointer are as
  /// they were; but for a failure to make the last names durable: then both are there. already_exists: the
  /// iteration is there and complete (one that is not is replaced, with a warning), or another job saves into
  /// the directory. A removal that fails is a warning.
  IterationReport save(std::int64_t iteration, const std::vector<SavedComponent>& components);

  /// Collective. The same in the background, as AsyncSaver::save(): all components are copied, and the call
  /// returns; then all shards are written, and rank 0 publishes the components, the iteration, the pointer,
  /// and removes old iterations. The other calls wait for a save that is under way.
  AsyncIteration start_save(std::int64_t iteration, const std::vector<SavedComponent>& components);

  /// Collective: all ranks name the same components. Loads them from the newest complete iteration of the job
  /// that has them all; where the job has none at all, from options.start_from. The iteration is pinned
  /// meanwhile: no retention removes it.
  ///
  /// Throws not_found when there are iterations and none can be taken: a job never begins anew silently; io
  /// when one could not be looked into; else as load() does.
  ResumeReport resume(const std::vector<LoadedComponent>& components, const ResumeOptions& options = {});

 private:
  struct Saving;

  std::unique_ptr<Communicator> comm_;
  FileSystem& files_;
  const std::string directory_;
  const TrainingOptions options_;
  std::unique_ptr<Saving> saving_;
};

}  // namespace cairn
