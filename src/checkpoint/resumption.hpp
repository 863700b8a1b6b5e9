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
  /// Under their final names from the start, which nothing refers to before the main output is there.
  std::vector<AtomicOutputs::Wanted> named;
  bool overwrite, sync;
  JournalJob job;  ///< without its outputs
  /// Of all ranks. Without `sync` what they write is counted on only as long as none is started anew.
  std::vector<std::string> machines;
};

/// A job at whatever point it has come to.
struct Resumption {
  AtomicOutputs outputs;  ///< kept, as the named files are
  JournalFile journal;
  JournalContent before;  ///< what is done; of a job that begins, nothing
};

/// Continues what the journal beside the first output tells of, or begins: when there is none, or one of a
/// job that is over. A temporary without journal holds nothing that is known, and is discarded. Throws
/// - mismatch, naming what has changed, when it is another job; when a temporary is not the file that the
///   journal tells of; when unsynced bytes may have been lost;
/// - corrupt when the journal is damaged;
/// - already_exists as AtomicOutput::create does, and for a named file that is there when a job begins.
/// What is there stays there then. With named files a job that is over, and of which a journal still tells,
/// is continued or refused like one that is not: their names would not be free.
Resumption begin_or_continue(FileSystem& files, const ResumableRun& run);

/// CRC-32 of the last bytes of each output, then of each named file.
std::vector<std::uint32_t> tails_of(FileSystem& files, const AtomicOutputs& outputs,
                                    std::span<const AtomicOutputs::Wanted> named);

/// The journal beside `file`, whose job is over, goes; a failure to remove it is ignored.
void remove_journal(FileSystem& files, const std::string& file);

}  // namespace cairn
