// SPDX-License-Identifier: BSD-3-Clause
// Values inside of objects that were saved whole: torch before 2.4 keeps dicts and lists without tensors so,
// later versions give each leaf a name of its own. Local.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cairn/object.hpp"
#include "cairn/plan.hpp"

namespace cairn {

/// The value at `path` in dicts (by keys that are str or int), lists and tuples, its steps joined by '.';
/// nullptr when there is none.
const Object* find_part(const Object& whole, std::string_view path);

/// What one rank's state wants of objects.
class ObjectParts {
 public:
  /// Both outlive it.
  ObjectParts(const RankState& state, const LoadPlanOptions& options) : state_(state), options_(options) {}

  /// Of the object that `read` names; nullptr, and noted, when it lacks the part.
  const Object* find(const Object& whole, const ObjectRead& read);
  /// The names of parts that were not found and may be missing. Throws mismatch with all others, as of the
  /// checkpoint at `path`.
  std::vector<std::string> take_missing(const std::string& path);

 private:
  const RankState& state_;
  const LoadPlanOptions& options_;
  std::vector<std::string> missing_;
};

}  // namespace cairn
