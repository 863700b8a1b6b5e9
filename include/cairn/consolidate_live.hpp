// SPDX-License-Identifier: BSD-3-Clause
// Row: checkpoint. A live state as one torch file, without a checkpoint in between.
#pragma once

#include <string>

#include "cairn/checkpoint.hpp"
#include "cairn/device.hpp"
#include "cairn/live_state.hpp"

namespace cairn {

/// Collective. Writes the live tensors of all ranks, and their objects, as one torch file that plain
/// torch.load opens: byte for byte what consolidate() makes of a save() of the state. Each element is taken
/// from one of the ranks that hold it. `path` is what `destination` is elsewhere.
///
/// With WriteMode::gather, and where the mode is automatic, rank 0 alone writes, and pulls what it needs from
/// the others, piece by piece in the order of the file: only rank 0 need see `path`. With WriteMode::shared
/// every rank writes a part of the file, and pulls what of that part lies with others.
///
/// `device_link`, if all ranks give one: of these ranks, in their order, and not used by anything else
/// meanwhile. What rank 0 pulls then goes from device to device, where it is a large part of one tensor that
/// the link reaches; from rank 0's device it goes into the buffers that it goes into otherwise. Rank 0's
/// device holds 1 MiB for each request, 64 at most. With WriteMode::shared the link is not used.
///
/// Of ConsolidateOptions all hold but `source`, `destination`, `copy`, `verify_source`, `resume`,
/// `journal_interval_s`, which are left as they are; `visibility_timeout_s` is for the output's temporary.
/// Beside the state a rank holds max_memory (2 MiB at least, 3 MiB where all ranks write), its objects as
/// they are stored, and the plan; rank 0 all objects and the catalogue.
///
/// On failure every rank throws the same Error, nothing is visible, and an old output is as it was.
/// invalid_argument: an option that does not hold, or a state of another rank. mismatch: the ranks' states
/// contradict each other, as in plan_save(). already_exists, and other errors, as of consolidate(). The state
/// stays as it is meanwhile. Memory of devices is copied out on I/O threads, and on the thread that calls.
ConsolidateReport consolidate(Communicator& comm, FileSystem& files, const LiveState& state,
                              const std::string& path, const ConsolidateOptions& options = {},
                              DeviceLink* device_link = nullptr);

}  // namespace cairn
