// SPDX-License-Identifier: BSD-3-Clause
// Which tensor goes into which file, and where in it. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/safetensors/header.hpp"

namespace cairn::safetensors {

/// Numbers of tensors, by file. As huggingface_hub's split_torch_state_dict_into_shards gives them: in their
/// order, a file is closed by the first tensor that would make it longer than `most_bytes` of data; a tensor
/// that is longer alone has a file of its own, in front of the one that is open. No file is empty, but for
/// the only one of no tensors.
std::vector<std::vector<std::uint32_t>> split(std::span<const std::uint64_t> tensor_bytes,
                                              std::uint64_t most_bytes);

/// Puts the tensors of a file in the order of the library (dtype_code) and sets begin and end of each, from
/// its shape.
void place(std::span<PlacedTensor> tensors);

/// "model-00002-of-00005.safetensors"; "model.safetensors" where there is one.
std::string file_name(std::size_t index, std::size_t count);
/// Whether a name is one of those.
bool is_file_name(std::string_view name);
inline constexpr std::string_view kSingleName = "model.safetensors",
                                  kIndexName = "model.safetensors.index.json";

}  // namespace cairn::safetensors
