// SPDX-License-Identifier: BSD-3-Clause
// The components that wrapping modules put into the names of parameters. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/keyed_hash.hpp"
#include "plan/names/path_name.hpp"

namespace cairn {

/// `_orig_mod` (torch.compile), `_fsdp_wrapped_module` and `_checkpoint_wrapped_module` are no names that
/// anybody gives: they are wrappers wherever something follows. `module` (DataParallel and its like) may be a
/// layer: it is a wrapper where it stands alone, that is, where all names with the same components before it
/// have `module` and more next. A module that wraps has no other child.
class Wrappers {
 public:
  /// All names of the checkpoint: what is left out of an output still shows that a `module` has siblings.
  explicit Wrappers(std::span<const std::string_view> names);

  /// Drops the wrappers from a name that is as it was in the checkpoint.
  void unwrap(PathName& name, std::string_view original) const;

 private:
  bool is_wrapper(std::string_view component, std::string_view before) const;

  std::unordered_set<std::string_view, KeyedHash> wrapping_;  // what stands before a wrapping `module`
};

}  // namespace cairn
