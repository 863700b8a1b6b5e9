// SPDX-License-Identifier: BSD-3-Clause
// The coordinator's way to a source whose files may lie with other ranks.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/communicator.hpp"
#include "checkpoint/gathered_files.hpp"
#include "checkpoint/run_watch.hpp"
#include "engine/remote_reads.hpp"
#include "storage/file_cache.hpp"

namespace cairn {

class SourceAccess {
 public:
  /// Local. A rank that reads for the coordinator holds `max_memory` bytes of buffers at most, or one buffer.
  SourceAccess(Communicator& comm, RunWatch& watch, std::uint64_t max_memory);
  ~SourceAccess();

  /// Collective; the arguments are the same on all ranks. From now on the files are read by their owners,
  /// which rank 0 and those ranks see at `directory`.
  void assign(const std::string& directory, std::vector<GatheredFile> gathered);

  /// As assigned last.
  const std::vector<GatheredFile>& gathered() const { return gathered_; }

  /// Rank 0: also with the files of others, during run(). Elsewhere the rank's own.
  FileSystem& files();

  /// Collective. As on_all_ranks, for the coordinator alone: it runs `body` while the others read for it.
  /// When a read fails, or what was read turns out to be damaged, the rank that has the file is the one that
  /// failed. `body` may run on another thread than the caller's, which is attended.
  void run(std::string_view step, const std::function<void()>& body);
  /// Collective. As on_root, in the same way.
  Bytes on_coordinator(std::string_view step, const std::function<Bytes()>& body);

 private:
  bool is_root() const { return comm_.rank() == 0; }
  void coordinate(const std::function<void()>& body);
  void serve();
  std::optional<int> owner_of_fault(const Error& error) const;

  Communicator& comm_;
  RunWatch& watch_;
  FileSystem& own_;
  const int requests_;
  std::string directory_;
  std::vector<GatheredFile> gathered_;
  std::vector<int> owners_;  // other than rank 0, ascending
  std::unique_ptr<Communicator> private_comm_;
  std::optional<RemoteReads> reads_;
  std::optional<GatheredFileSystem> view_;
  std::optional<FileCache> cache_;
};

}  // namespace cairn
