// SPDX-License-Identifier: BSD-3-Clause
// The files that a consolidation is asked for, with their rules. Local.
#pragma once

#include <string>
#include <vector>

#include "cairn/checkpoint.hpp"
#include "plan/names/name_rules.hpp"

namespace cairn {

struct OutputRequest {
  std::string file;  ///< empty: the main one
  NameRules rules;
  std::string map_file = {};  ///< whose lines are to become rules.map; empty: none
  bool beside_main = false;   ///< `file` is a name in the main output's directory

  /// Nothing is asked of it: all of the checkpoint as it is.
  bool keeps_all() const;
};

/// The main output first, then those of options.ema, then options.more_outputs. Throws invalid_argument for
/// rules that cannot be read. Reads no file.
std::vector<OutputRequest> output_requests(const ConsolidateOptions& options);

/// For the coordinator: with the main file known, puts the others' names and the map files in. Throws
/// invalid_argument when two are one file or one is a map, and as NameMap::parse does.
void complete_requests(FileSystem& files, const std::string& main_file, std::vector<OutputRequest>& requests);

/// A file of rules, whole.
std::string read_text(FileSystem& files, const std::string& path);

}  // namespace cairn
