// SPDX-License-Identifier: BSD-3-Clause
// The components of a training iteration as one checkpoint. Local.
#pragma once

#include <span>
#include <string>

#include "cairn/storage.hpp"
#include "formats/dcp/metadata_decoder.hpp"

namespace cairn {

/// Decodes the metadata of each component, a DCP directory below `directory`, and puts it under a key of the
/// component's name; files are named from `directory` on. Throws as dcp::decode_metadata_file().
dcp::DecodedMetadata decode_iteration(FileSystem& files, const std::string& directory,
                                      std::span<const std::string> components, FaultList& faults);

}  // namespace cairn
