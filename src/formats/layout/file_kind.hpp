// SPDX-License-Identifier: BSD-3-Clause
// What a regular file is, by its first bytes. Local.
#pragma once

#include <string>

#include "cairn/storage.hpp"
#include "formats/layout/folder.hpp"

namespace cairn::layout {

/// A noun phrase ("a torch file", "a safetensors file", …); empty when nothing known. A stored zip counts as
/// a torch file when its first record is called */data.pkl.
std::string file_kind(FileSystem& files, const std::string& path);

/// Whether a regular file is an index over safetensors files: by its name, x.index.json, and by what it says.
bool is_index(FileSystem& files, const std::string& path);
/// The index in a folder: model.safetensors.index.json, or the only other one; empty: none, or several.
std::string index_in(FileSystem& files, const Folder& folder);

}  // namespace cairn::layout
