// SPDX-License-Identifier: BSD-3-Clause
#include "plan/names/ema.hpp"

#include <unordered_set>

#include "base/fail.hpp"
#include "base/keyed_hash.hpp"

namespace cairn {
namespace {

constexpr std::string_view kEma = "net_ema.", kNet = "net.";

using Rests = std::unordered_set<std::string_view, KeyedHash>;

// What follows the prefix in the names that have it.
Rests rests_after(std::string_view prefix, std::span<const NamedEntry> entries) {
  Rests out;
  for (const NamedEntry& entry : entries) {
    if (entry.name.starts_with(prefix)) out.insert(entry.name.substr(prefix.size()));
  }
  return out;
}

std::vector<std::string> not_among(const Rests& rests, std::string_view prefix,
                                   std::span<const NamedEntry> entries) {
  std::vector<std::string> out;
  for (const NamedEntry& entry : entries) {
    if (entry.name.starts_with(prefix) && !rests.contains(entry.name.substr(prefix.size())))
      out.emplace_back(entry.name);
  }
  return out;
}

}  // namespace

NameRules ema_fp32_rules() {
  NameRules rules;
  rules.select.emplace_back("net_ema.*");
  rules.renames.push_back({"net_ema", "net"});
  return rules;
}

NameRules ema_bf16_rules() {
  NameRules rules = ema_fp32_rules();
  rules.casts.push_back({std::nullopt, DType::bfloat16, DType::float32});
  return rules;
}

EmaGaps find_ema_gaps(std::span<const NamedEntry> entries) {
  const Rests ema = rests_after(kEma, entries), net = rests_after(kNet, entries);
  if (ema.empty())
    fail(ErrorKind::not_found, "no EMA weights: none of {} names begins with '{}'", entries.size(), kEma);
  return {not_among(net, kEma, entries), not_among(ema, kNet, entries)};
}

}  // namespace cairn
