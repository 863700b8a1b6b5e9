// SPDX-License-Identifier: BSD-3-Clause
// The report of a consolidation on its way from the coordinator to all ranks. Pure.
#pragma once

#include "base/byte_writer.hpp"
#include "cairn/checkpoint.hpp"

namespace cairn {

Bytes encode_report(const ConsolidateReport& report);
/// Throws corrupt on what encode_report() did not write.
ConsolidateReport decode_consolidate_report(const Bytes& bytes);

}  // namespace cairn
