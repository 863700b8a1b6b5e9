// SPDX-License-Identifier: BSD-3-Clause
// Hashes for tables whose keys come from a file. std::hash will not do: keys that collide under it can be
// computed, and seeding the result changes nothing, since they stay equal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace cairn {

/// SipHash-1-3 (Aumasson, Bernstein: "SipHash: a fast short-input PRF", 2012) under a key drawn when the
/// process starts. `tweak` makes another function of it, for keys of several parts.
std::uint64_t keyed_hash(std::span<const std::byte> bytes, std::uint64_t tweak = 0);

/// SipHash-1-3 under the key (`before`, 0): the same in every process. Of data in several parts when `before`
/// is the hash of those that came first, cut at the same places. Tells accidents, not attacks.
std::uint64_t stable_hash(std::span<const std::byte> bytes, std::uint64_t before = 0);

/// For unordered containers keyed by text.
struct KeyedHash {
  std::size_t operator()(std::string_view text) const {
    return keyed_hash(std::as_bytes(std::span(text.data(), text.size())));
  }
};

}  // namespace cairn
