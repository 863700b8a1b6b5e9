// SPDX-License-Identifier: BSD-3-Clause
// The entries of a listing that `cairn ls` shows, and its forms.
#pragma once

#include <string>
#include <vector>

#include "cairn/checkpoint.hpp"
#include "standard_output.hpp"

namespace cairn {

struct Selection {
  const Listing& listing;
  std::vector<Entry> entries;  ///< in the order of the metadata
};

/// Entries whose whole flat name matches one of `globs`, as fnmatch does it; all without globs. Throws
/// not_found when a glob matches nothing.
Selection select(const Listing& listing, const std::vector<std::string>& globs);

/// A line an entry: name, dtype, shape, bytes, chunk count, separated by TABs.
void print_entries(StandardOutput& out, const Selection& selection);
/// A line a chunk: name, dtype, box, file, byte offset, byte length.
void print_shards(StandardOutput& out, const Selection& selection);
/// By prefix: indented last component, tensors, objects, bytes of the tensors.
void print_tree(StandardOutput& out, const Selection& selection);
void print_json(StandardOutput& out, const Selection& selection, const std::string& path, bool shards);

}  // namespace cairn
