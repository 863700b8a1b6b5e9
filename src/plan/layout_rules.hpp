// SPDX-License-Identifier: BSD-3-Clause
// The file of `--layout`: which tensors are cut, along which dimension. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/names/glob.hpp"

namespace cairn {

/// One rule a line: a glob over names as they are written, white space, then `replicated` (whole) or
/// `shard(D)` (cut along dimension D where a tensor has it, else whole). Lines end with LF or CRLF; empty
/// ones, and those that begin with '#', are skipped. The last rule that matches decides.
class LayoutRules {
 public:
  /// `file` is for messages. Throws corrupt with the line's number.
  static LayoutRules parse(std::string_view text, std::string_view file);

  /// The dimension that a tensor is cut along; nullopt: none. `otherwise` where no rule matches.
  std::optional<std::size_t> dim_of(std::string_view name, std::size_t otherwise) const;
  /// Throws not_found, naming a rule that matches none of them.
  void require_use(const std::vector<std::string_view>& names) const;

 private:
  struct Rule {
    Glob glob;
    std::optional<std::size_t> dim;
    std::size_t line;  ///< from 1
  };

  std::string file_;
  std::vector<Rule> rules_;
};

}  // namespace cairn
