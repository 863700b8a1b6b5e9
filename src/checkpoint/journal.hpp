// SPDX-License-Identifier: BSD-3-Clause
// What a consolidation that can be continued keeps beside its temporary: what is to be done, and which
// windows are. The bytes of it are described in docs/consolidation.md. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_writer.hpp"
#include "engine/window_log.hpp"
#include "plan/windows.hpp"

namespace cairn {

/// What is to be done. Windows of one run are those of another when the jobs are the same.
struct JournalJob {
  struct Shard {
    std::string name;
    std::uint64_t bytes;
    std::int64_t modified_ns;
  };
  struct Output {
    std::string path;     ///< the final one
    std::uint64_t bytes;  ///< of the whole file
    std::uint64_t inode;  ///< of the temporary; no part of the job, and not compared
  };

  std::string source;                                        ///< the directory, links resolved
  std::vector<std::pair<std::string, std::string>> options;  ///< those that matter, with their values
  std::uint64_t metadata_bytes = 0, metadata_hash = 0;
  std::uint64_t plan_hash = 0;  ///< of all that the options lead to: layouts, pickles
  std::uint64_t window_count = 0;
  std::vector<Shard> shards;
  std::vector<Output> outputs;  ///< the main one first
};

/// A sentence about what has changed; empty: nothing.
std::string difference(const JournalJob& before, const JournalJob& now);

struct JournalContent {
  JournalJob job;
  /// Machines whose unsynced writes are counted on: see docs.
  std::vector<std::string> machines;
  std::vector<WindowRun> finished;  ///< ascending, apart
  PassedBytes passed;               ///< of those
  /// All outputs are whole under their temporary names, and may have been published: the CRC-32 of the last
  /// bytes of each (see kTailBytes). Else empty.
  std::vector<std::uint32_t> tails;

  std::uint64_t bytes = 0;  ///< of whole entries; what follows was cut short by the end of a run
  std::uint32_t entries = 0;

  bool is_complete() const { return !tails.empty(); }
};

/// How much of an output's end proves that it is the one. The directory of a torch file lies there, with the
/// CRCs of its last records.
inline constexpr std::uint64_t kTailBytes = 64 << 10;

/// What an entry tells of windows.
Bytes encode_windows(FinishedWindows&& finished);
/// A whole journal with its one entry.
Bytes begin_journal(const JournalJob& job);
/// The entries that may follow; `sequence` is the number of entries before.
Bytes machines_entry(std::uint32_t sequence, std::span<const std::string> machines);
Bytes windows_entry(std::uint32_t sequence, std::span<const std::byte> windows);
Bytes complete_entry(std::uint32_t sequence, std::span<const std::uint32_t> tails);

/// Reads a journal. A last entry that is cut short, or zeros behind the last one, are what a killed run or a
/// machine that lost power leaves, and count as nothing. Throws corrupt with `where` (the file's name) and
/// the byte for anything else that begin_journal and the entries do not make.
JournalContent decode_journal(std::span<const std::byte> bytes, std::string_view where);

}  // namespace cairn
