// SPDX-License-Identifier: BSD-3-Clause
// The hash behind Fingerprint. Pure.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <span>

#include "cairn/state.hpp"

namespace cairn {

/// Two chains of 64 x 64 -> 128 bit multiplications, each folded to 64 bits.
class FingerprintHash {
 public:
  void add(std::uint64_t first, std::uint64_t second) {
    low_ = fold(low_ ^ first, second ^ 0x9e6c63d0876a9a47u);
    high_ = fold(high_ + second, std::rotl(first, 32) ^ 0xa54ff53a5f1d36f1u);
  }
  void add(Fingerprint value) { add(value.low, value.high); }
  /// The length counts: two texts are not one longer text.
  void add(std::span<const std::byte> bytes) {
    FingerprintHash other;  // takes every second pair, so that the multiplications need not wait
    const std::uint64_t length = bytes.size();
    std::uint64_t words[4];
    for (; bytes.size() >= sizeof(words); bytes = bytes.subspan(sizeof(words))) {
      std::memcpy(words, bytes.data(), sizeof(words));
      add(words[0], words[1]);
      other.add(words[2], words[3]);
    }
    std::ranges::fill(words, 0);
    if (!bytes.empty()) std::memcpy(words, bytes.data(), bytes.size());
    add(words[0], words[1]);
    other.add(words[2], words[3]);
    add(other.low_, other.high_);
    add(length, 0x6a09e667f3bcc909u);
  }
  Fingerprint finish() const {
    FingerprintHash last = *this;
    for (int i = 0; i < 3; ++i) last.add(last.high_, last.low_);
    return {last.low_, last.high_};
  }

 private:
  static std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
    const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }

  std::uint64_t low_ = 0x243f6a8885a308d3u, high_ = 0x13198a2e03707344u;
};

}  // namespace cairn
