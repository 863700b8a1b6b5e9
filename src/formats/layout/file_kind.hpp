// SPDX-License-Identifier: BSD-3-Clause
// What a regular file is, by its first bytes. Local.
#pragma once

#include <string>

#include "cairn/storage.hpp"

namespace cairn::layout {

/// A noun phrase ("a torch file", "a safetensors file", …); empty when nothing known. A stored zip counts as
/// a torch file when its first record is called */data.pkl.
std::string file_kind(FileSystem& files, const std::string& path);

}  // namespace cairn::layout
