// SPDX-License-Identifier: BSD-3-Clause
// Saves as work of the background thread, and what the caller's does: whether there is one already, and the
// copies.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/byte_writer.hpp"
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
  /// Local, once, after all were added: memory for copies of what this rank writes, a part of `room`, which
  /// grows to what is needed or to `cap` bytes, and stays as it is until the work has ended. nullptr: there
  /// is nothing to copy, as something has failed.
  std::shared_ptr<StagingBuffers> make_buffers(Pool<std::byte>& room, std::uint64_t cap) noexcept;
  bool fits() const { return payload_bytes_ <= buffers_->size(); }  ///< all copies in the buffers at once
  /// Local, once: copies, and fills the buffers. If not all fits, it waits for work() to drain them: on
  /// another thread meanwhile. The work does not end before. What fails is a failure of the work.
  void stage() noexcept;

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
  void plan_staging(Pool<std::byte>& room, std::uint64_t cap);
  void write_all(ByteWriter& out);

  FileSystem& files_;
  std::deque<Part> parts_;
  std::uint64_t payload_bytes_ = 0;
  std::shared_ptr<StagingBuffers> buffers_;  // the caller's thread keeps them, too
  std::string_view step_ = "staging the tensors";
  std::optional<Error> failure_;  // before anything is staged
};

/// A save that has been staged and runs.
struct StartedSave {
  std::shared_ptr<BackgroundRun> run;
  StagingReport staging;
};
/// Local. Stages and starts it; `start`: when the call began.
StartedSave stage_and_start(Background& background, std::unique_ptr<BackgroundSave> work,
                            Pool<std::byte>& room, std::uint64_t cap,
                            BackgroundSave::Clock::time_point start);

/// Collective. Throws invalid_argument unless all pass the same.
void require_equal_policies(Communicator& comm, WhileSaving policy);

/// Collective. False: skip this save. Throws as WhileSaving says.
bool admit(Communicator& comm, Background& background, WhileSaving policy);

}  // namespace cairn
