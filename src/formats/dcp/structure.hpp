// SPDX-License-Identifier: BSD-3-Clause
// The structure of a DCP directory, checked: for callers that need the sizes of its shards too. Local.
#pragma once

#include <cstdint>
#include <vector>

#include "cairn/storage.hpp"
#include "formats/dcp/metadata_decoder.hpp"

namespace cairn::dcp {

/// A shard that is missing, no regular file, or a link that leaves the directory.
inline constexpr std::uint64_t kNoSize = ~std::uint64_t{0};

/// As read_metadata in dcp/source.hpp. `file_sizes` receives one size in bytes, or kNoSize, per file of the
/// catalogue.
DecodedMetadata read_metadata(FileSystem& files, const std::string& directory, FaultList& faults,
                              std::vector<std::uint64_t>& file_sizes);

/// The checks of read_metadata, on a catalogue that is decoded already.
void check_structure(FileSystem& files, const std::string& directory, const Catalog& catalog,
                     FaultList& faults);

}  // namespace cairn::dcp
