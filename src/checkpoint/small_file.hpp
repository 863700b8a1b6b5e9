// SPDX-License-Identifier: BSD-3-Clause
// A torch file that one rank writes alone. Local.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cairn/storage.hpp"
#include "formats/record_content.hpp"
#include "formats/source.hpp"
#include "formats/torch_file/layout.hpp"

namespace cairn {

/// Writes all of `layout` into `file`. The records are bytes of the source's files (no tensors of its
/// catalogue), copied in pieces of a megabyte.
void write_small_file(File& file, const torch_file::Layout& layout, std::span<const std::byte> pickle,
                      const std::vector<RecordContent>& contents, Source& source);

}  // namespace cairn
