// SPDX-License-Identifier: BSD-3-Clause
#include "base/keyed_hash.hpp"

#include <bit>
#include <cstring>
#include <random>

namespace cairn {
namespace {

struct Key {
  std::uint64_t low, high;
};

const Key& process_key() {
  static const Key key = [] {
    std::random_device random;
    const auto word = [&] { return std::uint64_t{random()} << 32 | random(); };
    return Key{word(), word()};
  }();
  return key;
}

class State {
 public:
  explicit State(Key key)
      : a_(key.low ^ 0x736f6d6570736575u),
        b_(key.high ^ 0x646f72616e646f6du),
        c_(key.low ^ 0x6c7967656e657261u),
        d_(key.high ^ 0x7465646279746573u) {}

  void add(std::uint64_t word) {
    d_ ^= word;
    round();
    a_ ^= word;
  }
  std::uint64_t finish() {
    c_ ^= 0xff;
    for (int i = 0; i < 3; ++i) round();
    return a_ ^ b_ ^ c_ ^ d_;
  }

 private:
  void round() {
    a_ += b_, b_ = std::rotl(b_, 13) ^ a_, a_ = std::rotl(a_, 32);
    c_ += d_, d_ = std::rotl(d_, 16) ^ c_;
    a_ += d_, d_ = std::rotl(d_, 21) ^ a_;
    c_ += b_, b_ = std::rotl(b_, 17) ^ c_, c_ = std::rotl(c_, 32);
  }

  std::uint64_t a_, b_, c_, d_;
};

std::uint64_t hash_under(Key key, std::span<const std::byte> bytes) {
  State state(key);
  std::size_t at = 0;
  std::uint64_t word;
  for (; bytes.size() - at >= sizeof(word); at += sizeof(word)) {
    std::memcpy(&word, bytes.data() + at, sizeof(word));
    state.add(word);
  }
  word = std::uint64_t{bytes.size()} << 56;
  if (at < bytes.size()) {
    std::uint64_t rest = 0;
    std::memcpy(&rest, bytes.data() + at, bytes.size() - at);
    word |= rest;
  }
  state.add(word);
  return state.finish();
}

}  // namespace

std::uint64_t keyed_hash(std::span<const std::byte> bytes, std::uint64_t tweak) {
  const Key& key = process_key();
  return hash_under({key.low ^ tweak, key.high}, bytes);
}

std::uint64_t stable_hash(std::span<const std::byte> bytes, std::uint64_t before) {
  return hash_under({before, 0}, bytes);
}

}  // namespace cairn
