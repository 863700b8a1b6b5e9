// SPDX-License-Identifier: BSD-3-Clause
// Torch files that belong to a DCP directory: what the program saved beside the shards. Local.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/layout/folder.hpp"

namespace cairn::layout {

inline constexpr std::string_view kLightningFile = "meta.pt", kMegatronFile = "common.pt",
                                  kMegatronJson = "metadata.json";

struct Companion {
  std::string name;    ///< of the file
  std::string format;  ///< "lightning", "megatron"
};

/// Of a directory that holds a .metadata: Lightning's (meta.pt), Megatron's torch_dist (common.pt,
/// metadata.json). Throws unsupported for a Megatron backend that is not torch_dist of version 1, not_found
/// when Megatron's common.pt is missing or a companion's name leads to no file, corrupt for a metadata.json
/// beside common.pt that is none of Megatron's, mismatch when there are both.
std::optional<Companion> companion_of(const Folder& folder);

/// All files that make it what companion_of() says: the companion, and Megatron's metadata.json. Sorted.
std::vector<std::string> companion_files(const Folder& folder);

/// Whether the metadata.json of a Megatron checkpoint is there.
bool is_megatron(const Folder& folder);

}  // namespace cairn::layout
