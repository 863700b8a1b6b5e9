// SPDX-License-Identifier: BSD-3-Clause
// The components that wrapping modules put into the names of parameters. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
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
  struct Place {
    std::uint32_t before;
    std::string_view component;
    bool operator==(const Place&) const = default;
  };
  struct PlaceHash {
    std::size_t operator()(const Place& place) const {
      return keyed_hash(std::as_bytes(std::span(place.component.data(), place.component.size())),
                        place.before);
    }
  };

  // Leading components are numbered, 0 for none: a name of very many is walked once. Empty where no `module`
  // could be a wrapper.
  std::unordered_map<Place, std::uint32_t, PlaceHash> numbers_;
  std::vector<std::uint8_t> next_;  // by that number: what stands next in some name
};

}  // namespace cairn
