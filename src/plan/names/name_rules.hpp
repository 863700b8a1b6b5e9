// SPDX-License-Identifier: BSD-3-Clause
// What a user asks of names and element types: the rules, and their spelling as options. Pure.
// docs/names-and-casts.md says what they mean; name_plan.hpp carries them out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/tensor.hpp"
#include "plan/names/glob.hpp"
#include "plan/names/name_map.hpp"

namespace cairn {

struct RenameRule {
  std::string from, to;  ///< whole dotted components, neither is empty
};

struct CastRule {
  std::optional<Glob> glob;   ///< of new names; none: whatever tensor can be cast
  std::optional<DType> to;    ///< none: keep; not without a glob
  std::optional<DType> only;  ///< tensors of other types are not meant; none: all are
};

struct NameRules {
  std::vector<Glob> select, exclude;
  bool unwrap = false;
  std::vector<std::string> strip_prefix;
  std::vector<RenameRule> renames;
  std::optional<NameMap> map;
  std::vector<CastRule> casts;

  /// Nothing but selection and casts: all names stay as they are.
  bool keeps_names() const { return !unwrap && strip_prefix.empty() && renames.empty() && !map; }
};

// The value of an option as the user wrote it; all throw invalid_argument that quotes it. A dot at the end of
// a prefix, or at both ends of a rename, is dropped ("net_ema.=net." is "net_ema=net").
std::string parse_prefix(std::string_view text);  ///< of --strip-prefix
RenameRule parse_rename(std::string_view text);   ///< FROM=TO, with one '='
CastRule parse_cast(std::string_view text);       ///< DTYPE, GLOB=DTYPE, GLOB=keep; the last '=' counts

}  // namespace cairn
