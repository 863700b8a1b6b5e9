// SPDX-License-Identifier: BSD-3-Clause
// The outputs of `--ema`: the averaged weights under the names of the trained ones. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/names/name_plan.hpp"

namespace cairn {

inline constexpr std::string_view kEmaFp32File = "model_ema_fp32.pth", kEmaBf16File = "model_ema_bf16.pth";

/// `net_ema.*` as `net.*`. Types as they are stored, whatever the file is called; or float32 as bfloat16, the
/// rest as stored.
NameRules ema_fp32_rules();
NameRules ema_bf16_rules();

/// Names without counterpart, in the order of the entries.
struct EmaGaps {
  std::vector<std::string> without_net;  ///< net_ema.X where there is no net.X
  std::vector<std::string> without_ema;  ///< net.X where there is no net_ema.X
};
/// Throws not_found when no name begins with "net_ema.".
EmaGaps find_ema_gaps(std::span<const NamedEntry> entries);

}  // namespace cairn
