// SPDX-License-Identifier: BSD-3-Clause
#include "text.hpp"

#include <array>
#include <string_view>

namespace elastic {
namespace {

constexpr std::array<std::string_view, 8> kWho = {"the crane", "a heron", "the old fox", "one hare",
                                                  "the otter", "a wren",  "the badger",  "some owl"};
constexpr std::array<std::string_view, 8> kDoes = {"counts",  "hides",  "carries", "finds",
                                                   "watches", "trades", "guards",  "drops"};
constexpr std::array<std::string_view, 8> kWhat = {"stones", "seeds", "shells", "nuts",
                                                   "twigs",  "reeds", "plums",  "worms"};

// SplitMix64.
std::uint64_t next(std::uint64_t& state) {
  std::uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

int token_of(char character) {
  if (character >= 'a' && character <= 'z') return 3 + character - 'a';
  if (character >= '0' && character <= '9') return 29 + character - '0';
  return character == ' ' ? 1 : character == '.' ? 2 : 0;
}

std::string sample_text(std::uint64_t number, int length) {
  std::uint64_t state = number;
  std::string text;
  while (text.size() < static_cast<std::size_t>(length)) {
    const std::uint64_t draw = next(state);
    const auto count = static_cast<int>(draw >> 9 & 7) + 2;
    text.append(kWho[draw & 7]).append(" ").append(kDoes[draw >> 3 & 7]).append(" ");
    text.append(std::to_string(count)).append(" ").append(kWhat[draw >> 6 & 7]).append(".\n");
  }
  text.resize(static_cast<std::size_t>(length));
  return text;
}

}  // namespace elastic
