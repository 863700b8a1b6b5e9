// SPDX-License-Identifier: BSD-3-Clause
// What TrainingCheckpoints keeps between saves.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/pool.hpp"
#include "cairn/training.hpp"
#include "checkpoint/save_open.hpp"
#include "parallel/background.hpp"

namespace cairn {

struct TrainingCheckpoints::Saving {
  std::map<std::string, SavePlans> plans;  // by component
  Pool<std::byte> room;
  std::optional<Background> background;  // from the first start_save() on; goes first

  /// Collective.
  void finish() {
    if (background) background->finish();
  }
};

}  // namespace cairn
