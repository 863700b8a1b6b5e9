// SPDX-License-Identifier: BSD-3-Clause
// The way to a source whose files may lie with other ranks: the coordinator's, or that of all.
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
  /// Who needs the files of others.
  enum class Readers : std::uint8_t { coordinator, all };

  /// Local. A rank that reads for others holds `max_memory` bytes of buffers at most, or one buffer.
  SourceAccess(Communicator& comm, RunWatch& watch, std::uint64_t max_memory);
  ~SourceAccess();

  /// Collective; the arguments are the same on all ranks. From now on the files are read by their owners,
  /// which the readers and those ranks see at `directory`.
  void assign(const std::string& directory, std::vector<GatheredFile> gathered,
              Readers readers = Readers::coordinator);
  /// Local. Before assign(), on all ranks or none: what the coordinator is to get from device to device.
  void use_devices(DeviceAnswers devices) { devices_ = std::move(devices); }
  /// Of the buffers of a rank that reads for others, in bytes.
  std::uint64_t answer_bytes() const { return static_cast<std::uint64_t>(requests_) * kMostAnswerBytes; }

  /// As assigned last.
  const std::vector<GatheredFile>& gathered() const { return gathered_; }

  /// Of readers: also with the files of others, during run() and run_on_all(). Elsewhere the rank's own.
  FileSystem& files();

  /// Collective. As on_all_ranks, for the coordinator alone: it runs `body` while the others read for it.
  /// When a read fails, or what was read turns out to be damaged, the rank that has the file is the one that
  /// failed. `body` may run on another thread than the caller's, which is attended.
  void run(std::string_view step, const std::function<void()>& body);
  /// Collective. As on_root, in the same way.
  Bytes on_coordinator(std::string_view step, const std::function<Bytes()>& body);
  /// Collective. As on_all_ranks, of Readers::all: each rank runs `body` while it reads for the others. A
  /// read that fails is the failure of the rank that has the file.
  void run_on_all(std::string_view step, const std::function<void()>& body);

 private:
  bool is_root() const { return comm_.rank() == 0; }
  void coordinate(const std::function<void()>& body);
  void serve();
  void read_own(std::uint32_t file, std::uint64_t byte_offset, std::span<std::byte> into);
  std::optional<int> owner_of_fault(const Error& error) const;

  Communicator& comm_;
  RunWatch& watch_;
  FileSystem& own_;
  const int requests_;
  DeviceAnswers devices_;
  std::string directory_;
  std::vector<GatheredFile> gathered_;
  std::vector<int> owners_;  // other than rank 0, ascending
  bool all_read_ = false;
  std::unique_ptr<Communicator> private_comm_;
  std::optional<RemoteReads> reads_;
  std::optional<GatheredFileSystem> view_;
  std::optional<FileCache> cache_;
};

}  // namespace cairn
