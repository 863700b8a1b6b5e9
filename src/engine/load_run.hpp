// SPDX-License-Identifier: BSD-3-Clause
// Executes what one rank reads in a load: items of a plan, by many threads, straight into the tensors where
// that is possible. Local.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cairn/plan.hpp"
#include "cairn/tensor.hpp"
#include "engine/box_pieces.hpp"
#include "engine/box_reader.hpp"
#include "engine/joint_reads.hpp"
#include "engine/small_items.hpp"
#include "engine/storage_check.hpp"
#include "engine/view_writer.hpp"
#include "formats/source.hpp"

namespace cairn {

/// What is read at once, and the longest part that one thread takes.
inline constexpr std::uint64_t kLoadPieceBytes = 1 << 20;
/// Data buffers of one thread at most: what is read, packed, cast.
inline constexpr std::uint64_t kLoadBytesPerThread = 4 * kLoadPieceBytes;

struct LoadRunOptions {
  /// Compare storages with their CRCs: at once when an item is small, or not row-major and wanted as a whole;
  /// else through the StorageCheck.
  bool verify = true;
  /// Called by some thread when all items of a box have arrived; may be empty.
  std::function<void(std::uint32_t entry, std::uint32_t box)> box_done;
  /// Items that are read together with other ranks, before all others; they are the parts' items. May be
  /// nullptr. When a rank fails, the run ends on all ranks of the node, without a failure on the others.
  JointReads* joint = nullptr;
};

/// One load of one rank. Threads call work(); the pieces of the items are given out in file order, whoever
/// comes gets the next.
class LoadRun {
 public:
  /// Where an item goes: the memory of a wanted box.
  using Views = std::function<const TensorView&(std::uint32_t entry, std::uint32_t box)>;

  /// `items` are items of `plan`, in its order, which was made for `wanted`. All outlive the run.
  LoadRun(Source& source, const LoadPlan& plan, std::span<const ReadItem> items, const RankState& wanted,
          Views views, LoadRunOptions options);

  /// One thread's part. Throws what the source throws, with the tensor's name, and corrupt as
  /// compare_storage.
  void work(const std::atomic<bool>& stop);

  /// After the threads have ended: what was read of storages.
  StorageCheck take_check() { return std::move(check_); }

 private:
  class Thread;
  // Some neighbouring small items, or a piece of a large one.
  struct Unit {
    std::uint32_t first, count;  // items; count 0: a piece
    std::uint64_t piece;
  };

  void cut();
  void count_boxes();
  BoxPieces pieces_of(const ReadItem& item) const;
  void arrived(const ReadItem& item);

  Source& source_;
  const LoadPlan& plan_;
  const std::span<const ReadItem> items_;
  const RankState& wanted_;
  const Views views_;
  const LoadRunOptions options_;
  std::vector<Unit> units_;
  std::atomic<std::size_t> next_{0};
  std::vector<std::size_t> first_box_;                  // of each entry, in
  std::unique_ptr<std::atomic<std::uint32_t>[]> left_;  // what is still to come of each box
  std::mutex mutex_;
  StorageCheck check_;  // guarded while threads run
};

}  // namespace cairn
