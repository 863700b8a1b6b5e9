// SPDX-License-Identifier: BSD-3-Clause
// The beginning of every save: what all ranks agree on before a byte is written.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cairn/communicator.hpp"
#include "cairn/live_state.hpp"
#include "cairn/plan.hpp"
#include "cairn/save.hpp"
#include "cairn/storage.hpp"
#include "formats/dcp/directory_output.hpp"

namespace cairn {

/// Plans of earlier saves of one state, as one rank keeps them.
struct SavePlans {
  PlanCache<SavePlan> parts;
  PlanCache<GlobalSavePlan> wholes;  ///< on rank 0
};

/// A save whose directory is open, as one rank has it. Without publishing nothing of it stays.
struct OpenedSave {
  std::string directory;
  SaveOptions options;
  int threads = 1;  ///< of this rank
  std::shared_ptr<const SavePlan> part;
  std::uint32_t first_index = 0;
  SaveReport report;  ///< path, planned, plan_s
  // on rank 0 only
  std::shared_ptr<const GlobalSavePlan> whole;
  std::optional<dcp::DirectoryOutput> output;
};

/// Collective. Compares the arguments, plans or finds the plan, compares replicas where it is asked for, and
/// opens the directory. Throws as Saver::save() does.
OpenedSave open_save(Communicator& comm, FileSystem& files, SavePlans& plans, const LiveState& state,
                     const std::string& directory, const SaveOptions& options);

/// Collective. A whole save, with plans that the caller keeps.
SaveReport save_with(Communicator& comm, FileSystem& files, SavePlans& plans, const LiveState& state,
                     const std::string& directory, const SaveOptions& options);

}  // namespace cairn
