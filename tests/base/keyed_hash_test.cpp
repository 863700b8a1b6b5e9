// SPDX-License-Identifier: BSD-3-Clause
#include "base/keyed_hash.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace cairn {
namespace {

// The texts were computed to be equal under the std::hash of libstdc++; any seed applied to its result keeps
// them equal.
TEST(KeyedHash, TextsMadeToCollideDoNot) {
  const std::string_view a = "Y2<5].xulll(n&Zb", b = "DE-I7?~x'Y*<utwi";
  EXPECT_NE(KeyedHash{}(a), KeyedHash{}(b));
}

TEST(KeyedHash, EveryByteLengthAndTweakCounts) {
  std::set<std::uint64_t> seen;
  for (std::size_t size = 0; size < 20; ++size) {
    std::string text(size, 'a');
    EXPECT_TRUE(seen.insert(KeyedHash{}(text)).second) << size;
    EXPECT_EQ(KeyedHash{}(text), KeyedHash{}(std::string(text))) << size;
    EXPECT_TRUE(seen.insert(keyed_hash(std::as_bytes(std::span(text)), 1)).second) << size;
    for (char& c : text) {
      c = 'b';
      EXPECT_TRUE(seen.insert(KeyedHash{}(text)).second) << size;
      c = 'a';
    }
  }
}

}  // namespace
}  // namespace cairn
