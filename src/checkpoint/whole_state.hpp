// SPDX-License-Identifier: BSD-3-Clause
// The state that a checkpoint makes of itself, for those who load everything. Local.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/live_state.hpp"
#include "cairn/load.hpp"
#include "cairn/metadata.hpp"

namespace cairn {

/// All tensors and objects whose names match one of the globs (none: all), whole, with memory of their own.
class WholeState {
 public:
  /// Of rank `rank` of `ranks`. Throws not_found for a glob that matches nothing.
  WholeState(const Catalog& catalog, const std::vector<std::string>& select, int rank, int ranks);

  /// To be filled.
  LiveState& state() { return state_; }
  /// What is in it then.
  LoadedState take(LoadReport report);

 private:
  void add(const Catalog& catalog, const TensorInfo& tensor, int ranks);
  void add_object(std::string_view name);

  LiveState state_;
  std::vector<LoadedTensor> tensors_;
  std::vector<std::size_t> objects_;
};

}  // namespace cairn
