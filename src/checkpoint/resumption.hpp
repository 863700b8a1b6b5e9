// SPDX-License-Identifier: BSD-3-Clause
// What an earlier run left of the same job, and going on with it. Local; for the coordinator.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cairn/storage.hpp"
#include "checkpoint/journal_file.hpp"
#include "storage/atomic_outputs.hpp"

namespace cairn {

/// The machine that this process runs on, since it was started; empty: not known.
std::string this_machine();

/// Whether there is a journal beside `file`, and so perhaps an output of the same job.
bool has_journal(FileSystem& files, const std::string& file);

struct ResumableRun {
  std::vector<AtomicOutputs::Wanted> wanted;  ///< the main output first
  bool overwrite, sync;
  JournalJob job;  ///< without its outputs
  /// Of all ranks. Without `sync` what they write is counted on only as long as none is started anew.
  std::vector<std::string> machines;
};

/// A job at whatever point it has come to.
struct Resumption {
  AtomicOutputs outputs;  ///< kept
  JournalFile journal;
  JournalContent before;  ///< what is done; of a job that begins, nothing
};

/// Continues what the journal beside the first output tells of, or begins: when there is none, or one of a
/// job that is over. A temporary without journal holds nothing that is known, and is discarded. Throws
/// - mismatch, naming what has changed, when it is another job; when a temporary is not the file that the
///   journal tells of; when unsynced bytes may have been lost;
/// - corrupt when the journal is damaged;
/// - already_exists as AtomicOutput::create does.
/// What is there stays there then.
Resumption begin_or_continue(FileSystem& files, const ResumableRun& run);

/// CRC-32 of the last bytes of each output.
std::vector<std::uint32_t> tails_of(const AtomicOutputs& outputs);

}  // namespace cairn
