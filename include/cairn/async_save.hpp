// SPDX-License-Identifier: BSD-3-Clause
// Row: checkpoint. Saving in the background: the call copies the state and returns, the rest goes on while
// the job computes. docs/training.md says what drives it at which thread level of MPI.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "cairn/communicator.hpp"
#include "cairn/error.hpp"
#include "cairn/live_state.hpp"
#include "cairn/save.hpp"
#include "cairn/storage.hpp"

namespace cairn {

class BackgroundRun;

/// What a call does that finds an earlier save under way, on any rank.
enum class WhileSaving : std::uint8_t {
  wait,    ///< until it has ended on all ranks
  refuse,  ///< throws invalid_argument on all ranks
  skip,    ///< saves nothing; the handle says so
};

/// The same on all ranks, but for staging_bytes.
struct AsyncSaveOptions {
  WhileSaving while_saving = WhileSaving::wait;
  /// The most memory of this rank that copies of a state may take, in bytes; 2 MiB at least are taken.
  /// Objects count, but are held whole. It is taken when it is needed first, and kept from save to save. Of a
  /// state that is larger the call copies piece after piece, as those before are written and give way.
  std::uint64_t staging_bytes = 4ull << 30;
};

/// How the call went, on this rank.
struct StagingReport {
  std::uint64_t staged_bytes = 0;   ///< of tensors that were copied, each piece rounded up to 64 bytes
  bool over_cap = false;            ///< whether they had no room at once
  std::uint64_t drained_bytes = 0;  ///< of them, those that took the place of others which had been written
  double drained_s = 0;             ///< how long the call waited for that
  double blocked_s = 0;             ///< the whole call
};

/// A save that may still be under way. Copies are the same one. It may be dropped, and outlive the saver: the
/// save goes on; what fails then is known to nobody.
class SaveHandle {
 public:
  /// Local. Whether it has ended on this rank. Never waits, for other ranks neither: they may learn it a step
  /// later, so that a rank which acts on it alone, by leaving a loop of collective calls, leaves them
  /// waiting.
  bool poll();
  /// Local. Once it has ended: what wait() throws; null: nothing, or it has not ended yet.
  const Error* error();
  /// WhileSaving::skip: nothing is saved. Such a save has ended with an Error.
  bool is_skipped() const { return run_ == nullptr; }
  const StagingReport& staging() const { return staging_; }

 protected:
  SaveHandle(std::shared_ptr<BackgroundRun> run, const StagingReport& staging)
      : run_(std::move(run)), staging_(staging) {}
  void finish();

 private:
  std::shared_ptr<BackgroundRun> run_;
  StagingReport staging_;
};

template <class Report>
class PendingSave : public SaveHandle {
 public:
  PendingSave(std::shared_ptr<BackgroundRun> run, const StagingReport& staging,
              std::shared_ptr<const Report> report)
      : SaveHandle(std::move(run), staging), report_(std::move(report)) {}

  /// Waits until it has ended. The report is the same on all ranks, and so is the Error that is thrown: as of
  /// the blocking save. Any rank may call it alone where MPI gives MPI_THREAD_MULTIPLE; else it ends when all
  /// ranks poll, wait, or call the saver.
  Report wait() {
    finish();
    return *report_;
  }

 private:
  std::shared_ptr<const Report> report_;  // filled in by the background thread before it has ended
};
using AsyncSave = PendingSave<SaveReport>;

/// Saves states of a job in the background, one at a time; keeps plans as Saver does, and the memory for
/// copies. One object a rank.
class AsyncSaver {
 public:
  /// Collective: all pass the same options. `files` outlives it, `comm` need not. Works on its own duplicates
  /// of `comm`, and has a thread of its own.
  AsyncSaver(Communicator& comm, FileSystem& files, const AsyncSaveOptions& options = {});
  /// Collective. Finishes what is under way. Before MPI_Finalize.
  ~AsyncSaver();
  AsyncSaver(const AsyncSaver&) = delete;

  /// Collective, as Saver::save(): arguments are compared, the plan is made or found, and the directory
  /// opened; what fails there is thrown by the call. Then what this rank will write is copied, and the call
  /// returns: tensors may change, and `state` may go. A state larger than the cap is written meanwhile, and
  /// the call returns when the last of it is copied. What fails from then on, copying included, is the
  /// handle's, on all ranks, and ends the copying; a failed save leaves what a failed Saver::save() leaves.
  AsyncSave save(const LiveState& state, const std::string& directory, const SaveOptions& options = {});

  /// Local. For what all ranks agree on before a save: not while another thread calls save().
  Communicator& communicator() { return *comm_; }

 private:
  struct Saving;
  std::unique_ptr<Communicator> comm_;
  FileSystem& files_;
  const AsyncSaveOptions options_;
  std::unique_ptr<Saving> saving_;
};

}  // namespace cairn
