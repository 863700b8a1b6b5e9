// SPDX-License-Identifier: BSD-3-Clause
// What ranks tell each other while they work. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace cairn {

enum class RunPhase : std::uint8_t { planning, looking, copying, syncing, publishing, leaving, reading };
/// "planning", "looking for the shards", "copying", "syncing", "publishing", "leaving", "reading".
std::string_view to_string(RunPhase phase);

inline constexpr std::size_t kReportBytes = 512;
using WireReport = std::array<std::byte, kReportBytes>;

struct RankReport {
  RunPhase phase = RunPhase::planning;
  bool at_work = false;  ///< else it waits for other ranks, and an answer is all that is asked of it
  bool last = false;
  std::uint32_t round = 0;  ///< of copying; bytes belong to one
  std::uint64_t steps = 0;  ///< grows as long as the rank gets on
  std::uint64_t done_bytes = 0, total_bytes = 0;
  std::string host;
  std::string doing;  ///< the file operation that takes longest; empty: none

  /// Long texts are cut.
  WireReport encode() const;
  static RankReport decode(std::span<const std::byte> bytes);
};

}  // namespace cairn
