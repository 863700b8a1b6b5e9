// SPDX-License-Identifier: BSD-3-Clause
// Executes one rank's share of an output: threads take windows in order, fill each in memory, have it
// written once.
// Local.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cairn/storage.hpp"
#include "engine/crc_pieces.hpp"
#include "engine/window_filler.hpp"
#include "engine/window_log.hpp"
#include "engine/window_writer.hpp"
#include "formats/output_layout.hpp"
#include "formats/record_content.hpp"
#include "formats/source.hpp"
#include "plan/windows.hpp"

namespace cairn {

/// Windows are cut at multiples of this, whatever the number of ranks and threads.
inline constexpr std::uint64_t kWindowBytes = 1 << 20;
/// Data buffers of one thread: the window and what is gathered from.
inline constexpr std::uint64_t kBufferBytesPerThread = 2 * kWindowBytes;

struct TransferOptions {
  int threads = 1;
  bool verify_source = true;      ///< see WindowFiller
  File* kernel_output = nullptr;  ///< the file that windows are ranges of: see KernelCopier; nothing is
                                  ///< verified then
  /// Called once in a while from the calling thread with the bytes written so far; may be empty.
  std::function<void(std::uint64_t)> progress;
  std::chrono::milliseconds progress_interval{250};
  WindowLog* log = nullptr;  ///< told of each window once it is written; may be null
};

/// Fills those of `windows` that are `owned` and has them written. Returns the CRCs of what was
/// written, joined, and those of the storages of which this rank read a part only; storages that it read
/// wholly are compared. The first failure of any thread stops all of them and is thrown.
PassedBytes transfer(Source& source, const OutputLayout& layout, std::span<const RecordContent> contents,
                     const Windows& windows, const WindowRuns& owned, const MakeWriter& make_writer,
                     const TransferOptions& options);

/// Threads a rank uses when the user names none: the cores of its affinity, divided by the ranks on the node
/// when they are not bound to cores of their own; 1 to 8.
int default_threads(int ranks_on_node);

}  // namespace cairn
