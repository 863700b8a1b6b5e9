// SPDX-License-Identifier: BSD-3-Clause
// The journal of a consolidation on disk. Local; for the coordinator, under the lock of the main temporary.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "cairn/storage.hpp"
#include "checkpoint/journal.hpp"

namespace cairn {

/// What is in the journal at `path`; nullopt where none is. Throws as decode_journal does.
std::optional<JournalContent> read_journal(FileSystem& files, const std::string& path);

/// Appends. With `sync` an entry is durable when a call returns.
class JournalFile {
 public:
  /// A new journal, which is at `path` whole or not at all; one that is there is replaced.
  static JournalFile create(FileSystem& files, const std::string& path, const JournalJob& job, bool sync);
  /// Goes on with what read_journal found, and cuts off what it did not count.
  static JournalFile reopen(FileSystem& files, const std::string& path, const JournalContent& content,
                            bool sync);

  void add_machines(std::span<const std::string> machines);
  /// What encode_windows() made.
  void add_windows(std::span<const std::byte> windows);
  void add_complete(std::span<const std::uint32_t> tails);
  /// The work is done. That it cannot be removed is no failure: the next run finds that all is done.
  void remove();

 private:
  JournalFile(FileSystem& files, const std::string& path, bool sync);
  void append(std::span<const std::byte> entry);

  FileSystem* files_;
  std::unique_ptr<File> file_;
  bool sync_;
  std::uint64_t end_ = 0;
  std::uint32_t entries_ = 0;
};

}  // namespace cairn
