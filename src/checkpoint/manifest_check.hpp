// SPDX-License-Identifier: BSD-3-Clause
// A directory against the manifest beside its metadata (docs/publishing.md). Local.
#pragma once

#include <string>
#include <vector>

#include "cairn/storage.hpp"
#include "checkpoint/verify_items.hpp"
#include "formats/dcp/metadata_decoder.hpp"

namespace cairn {

/// Compares length and SHA-256 of `.metadata`, and the places of all items; differences become faults. What
/// the metadata announces and is not there, and a manifest of another save, are warnings. Returns the CRCs of
/// the items, by place; none where there is no manifest to go by.
std::vector<ManifestCrc> check_manifest(FileSystem& files, const std::string& directory,
                                        const dcp::DecodedMetadata& metadata, FaultList& faults,
                                        std::vector<std::string>& warnings);

}  // namespace cairn
