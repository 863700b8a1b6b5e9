// SPDX-License-Identifier: BSD-3-Clause
// Do renamed entries still fit side by side? Pure.
#pragma once

#include <span>

#include "plan/names/name_plan.hpp"

namespace cairn {

/// Throws mismatch that names both, old and new, when two entries have one name; and with `nested` when they
/// have one path, when one is a leaf on the other's path, or when one makes a dict of what is a list to the
/// other.
void require_no_collision(std::span<const KeptEntry> kept, std::span<const NamedEntry> entries, bool nested);

}  // namespace cairn
