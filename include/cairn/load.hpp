// SPDX-License-Identifier: BSD-3-Clause
// Row: checkpoint. Loading a checkpoint into a live state of any layout and any number of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/communicator.hpp"
#include "cairn/device.hpp"
#include "cairn/error.hpp"
#include "cairn/live_state.hpp"
#include "cairn/plan.hpp"
#include "cairn/storage.hpp"

namespace cairn {

/// Whether what several ranks want alike is read by one of them and sent to the others.
enum class ReadOnce : std::uint8_t {
  automatic,  ///< by size and number of ranks
  on,
  off,
};

struct LoadOptions {
  LoadPlanOptions plan;  ///< what may be missing, left over, cast
  bool verify = true;    ///< compare the stored CRC-32 of items that this job reads whole
  ReadOnce read_once = ReadOnce::automatic;
  /// If given, of the ranks of the load, in their order, and not used by anything else meanwhile: what all
  /// ranks want alike, contiguous in memory that it reaches, is read by one rank, and sent on from device to
  /// device. Otherwise, and where a rank gives none, through the ranks' processors.
  DeviceLink* device_link = nullptr;
  RankEntryPolicy rank_entries = RankEntryPolicy::refuse;  ///< on another number of ranks than saved
  int threads = 0;                                         ///< as in ConsolidateOptions
  std::uint64_t max_memory = 64ull << 20;                  ///< data buffers of one rank, in bytes
  double visibility_timeout_s = 30;                        ///< as in ConsolidateOptions
  /// A rank that does not get on for so long ends the job, as in ConsolidateOptions; 0: never. The same on
  /// all ranks.
  double stall_timeout_s = 0;
  std::function<void(const Error&)> stalled;
};

/// The same on all ranks.
struct LoadReport {
  std::vector<std::string> missing, unexpected;  ///< tolerated; sorted
  std::vector<std::string> dropped;              ///< entries of single ranks that nobody got; sorted
  std::uint64_t read_bytes = 0;                  ///< from files, over all ranks
  std::uint64_t received_bytes = 0;              ///< from other ranks, over all ranks
  std::uint64_t device_received_bytes = 0;       ///< of these, by LoadOptions::device_link
  std::uint64_t verified_bytes = 0;              ///< whose stored CRC was compared
  double plan_s = 0, seconds = 0;                ///< rank 0's
  std::uint64_t peak_rss_bytes = 0;              ///< VmHWM, the largest of all ranks
  std::vector<std::string> warnings;
};

/// Collective. Fills the tensors of `state` (the same names on all ranks or not, in any layout; boxes may
/// overlap) and replaces its objects, reading only the bytes that are wanted. `path`: a DCP directory, or a
/// torch file.
///
/// On failure every rank throws the same Error: mismatch with one report of all that does not fit, before any
/// tensor has changed; corrupt or io while reading, when the tensors hold a part of the new values: a
/// hint says so.
LoadReport load(Communicator& comm, FileSystem& files, const std::string& path, LiveState& state,
                const LoadOptions& options = {});

/// A tensor that a load made.
struct LoadedTensor {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;  ///< row-major
};

struct LoadedState {
  std::vector<LoadedTensor> tensors;                    ///< in the checkpoint's order
  std::vector<std::pair<std::string, Object>> objects;  ///< likewise
  LoadReport report;
};

/// Collective. All tensors and objects whose names match one of the globs (none: all), whole, on every rank.
/// A glob that matches nothing is not_found.
LoadedState load_all(Communicator& comm, FileSystem& files, const std::string& path,
                     const std::vector<std::string>& select = {}, const LoadOptions& options = {});

}  // namespace cairn
