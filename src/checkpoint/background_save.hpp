// SPDX-License-Identifier: BSD-3-Clause
// Saves as work of the background thread, and what comes before it on the caller's: whether there is one, and
// the copies.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/pool.hpp"
#include "cairn/async_save.hpp"
#include "checkpoint/own_shards.hpp"
#include "checkpoint/save_open.hpp"
#include "parallel/background.hpp"

namespace cairn {

/// One or several saves that end together.
class BackgroundSave : public BackgroundWork {
 public:
  using Clock = std::chrono::steady_clock;

  explicit BackgroundSave(FileSystem& files) : files_(files) {}

  /// Local. What fails is a failure of the work.
  void add(OpenedSave save, const LiveState& state) noexcept;
  /// Local, once, after all were added. Copies what this rank writes into `room`, which grows to `cap` bytes
  /// at most and stays as it is until the work has ended; writes what finds no room there. What fails is a
  /// failure of the work.
  StagingReport stage(Pool<std::byte>& room, std::uint64_t cap) noexcept;

  Bytes work() override;
  std::string_view step() const override { return step_; }
  std::string_view concluding() const override { return "publishing"; }
  void undo() noexcept override;
  void leave() noexcept override;

 protected:
  struct Part {
    OpenedSave save;
    std::optional<OwnShards> shards;  // goes before the lock does
  };
  /// What all ranks have written of each part, and their largest peak.
  struct Results {
    std::vector<std::vector<Bytes>> written;  ///< by part, then by rank
    std::uint64_t peak_rss_bytes = 0;
  };
  Results read_results(const std::vector<Bytes>& results) const;
  std::deque<Part>& parts() { return parts_; }
  void keep_all();

 private:
  void stage_all(Pool<std::byte>& room, std::uint64_t cap, StagingReport& report);

  FileSystem& files_;
  std::deque<Part> parts_;
  std::string_view step_ = "staging the tensors";
  std::optional<Error> failure_;  // on the caller's thread
};

/// Collective. Throws invalid_argument unless all pass the same.
void require_equal_policies(Communicator& comm, WhileSaving policy);

/// Collective. False: skip this save. Throws as WhileSaving says.
bool admit(Communicator& comm, Background& background, WhileSaving policy);

}  // namespace cairn
