// SPDX-License-Identifier: BSD-3-Clause
// What a load makes of names: entries of single ranks on another number of ranks, and the verdict on all that
// does not fit. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/byte_writer.hpp"
#include "cairn/load.hpp"
#include "cairn/metadata.hpp"
#include "cairn/plan.hpp"

namespace cairn {

/// How many ranks saved a checkpoint: the highest R of its files `__R_i.distcp` and of its entries of single
/// ranks, and one. A rank that stored nothing, above all others, is not seen; entries of its own it has none.
int saved_ranks(const Catalog& catalog);

/// What one rank found out.
struct RankFindings {
  LoadFindings findings;
  std::vector<std::string> rank_entry_kinds;  ///< that its state names; see rank_entry_kind()
  std::vector<std::string> rounded;           ///< tensors whose cast may change values, with both types

  Bytes encode() const;
  static RankFindings decode(std::span<const std::byte> bytes);
};
RankFindings find_out(const Catalog& catalog, const RankState& state, const LoadPlan& plan);

/// What becomes of the load; the same on all ranks.
struct LoadDecision {
  std::vector<std::string> missing, unexpected, dropped, warnings;  ///< as in LoadReport
  std::vector<bool> is_dropped;                                     ///< for each entry of the catalogue
  std::vector<std::uint32_t> common_objects;  ///< of the catalogue: what the coordinator reads for all

  Bytes encode() const;
  static LoadDecision decode(std::span<const std::byte> bytes);
};

/// The coordinator. `objects_everywhere`: see LoadSource. Entries of single ranks are decided upon where some
/// rank's state names entries of their kind; others are names like any. Throws mismatch with all that does
/// not fit.
LoadDecision decide_load(const Catalog& catalog, std::vector<RankFindings> findings,
                         const LoadOptions& options, bool objects_everywhere);

}  // namespace cairn
