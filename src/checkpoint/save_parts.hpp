// SPDX-License-Identifier: BSD-3-Clause
// The ranks' parts of a live state as they are stored: the plan that all agree on, and what its items are
// made of.
#pragma once

#include <memory>

#include "cairn/communicator.hpp"
#include "cairn/live_state.hpp"
#include "cairn/plan.hpp"
#include "engine/shard_writer.hpp"

namespace cairn {

/// A plan as one rank has it.
struct SharedPlan {
  std::shared_ptr<const SavePlan> part;
  std::shared_ptr<const GlobalSavePlan> whole;  ///< on rank 0 only
};

/// Collective. plan_save() of the states of all ranks, by rank 0; all ranks throw what it throws.
SharedPlan plan_together(Communicator& comm, const RankState& state, const SavePlanOptions& options);

/// Local. What RankState::encode() gave, one state after the other; by several threads where that pays: the
/// other ranks wait for the plan meanwhile.
std::vector<RankState> decode_states(std::span<const Bytes> states);

/// Local. The item of a plan for `state`: views of its tensors, and objects as stored_object() makes them.
ShardItem content_of(const LiveState& state, const SavePlan& plan, const WriteItem& item);

/// Local. The archive that torch.save would make of the value.
Bytes stored_object(const Object& object);

}  // namespace cairn
