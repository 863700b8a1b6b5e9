// SPDX-License-Identifier: BSD-3-Clause
// The end of every save: rank 0 publishes what all ranks have written. Local; what the ranks tell each other
// about it, as bytes.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cairn/communicator.hpp"
#include "cairn/error.hpp"
#include "cairn/save.hpp"
#include "checkpoint/save_open.hpp"
#include "engine/shard_writer.hpp"

namespace cairn {

Bytes encode(std::span<const WrittenItem> items);

/// On rank 0: publishes a save from what encode() made of each rank's items, and fills in the report's counts
/// and warnings. Throws with nothing published; the Error that it returns came after that.
std::optional<Error> publish_save(OpenedSave& save, const std::vector<Bytes>& written_by_rank);

/// All of a report but the path and `planned`, which every rank knows.
Bytes encode_summary(const SaveReport& report);
void decode_summary(std::span<const std::byte> bytes, SaveReport& report);

}  // namespace cairn
