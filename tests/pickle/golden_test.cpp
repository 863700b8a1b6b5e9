// SPDX-License-Identifier: BSD-3-Clause
// CPython's own pickles, read and written again.
#include <gtest/gtest.h>

#include "pickle/golden.hpp"

namespace cairn::pickle {
namespace {

TEST(PickleGolden, EveryProtocol2PickleIsWrittenBackByteForByte) {
  ASSERT_GT(golden_cases().size(), 40u);
  for (const auto& name : golden_cases()) {
    SCOPED_TRACE(name);
    const std::string pickle = golden(name + ".p2.pkl");
    EXPECT_EQ(rewritten(pickle), pickle);
  }
}

TEST(PickleGolden, HigherProtocolsOfTheSameObjectsBecomeTheProtocol2Pickle) {
  for (const auto& name : golden_cases()) {
    const std::string expected = golden(name + ".p2.pkl");
    for (const auto* protocol : {".p3.pkl", ".p4.pkl", ".p5.pkl"}) {
      const std::string pickle = golden(name + protocol);
      if (pickle.empty()) continue;  // the large cases exist for protocols 2 and 4
      SCOPED_TRACE(name + protocol);
      EXPECT_EQ(rewritten(pickle), expected);
    }
  }
}

TEST(PickleGolden, SeveralPicklesShareAnArena) {
  Arena arena;
  std::vector<std::pair<std::string, Value>> roots;
  for (const std::string name : {"shared", "bytes", "cycles", "renamed"}) {
    const std::string pickle = golden(name + ".p2.pkl");
    roots.emplace_back(pickle, read_text(arena, pickle));
  }
  for (const auto& [pickle, root] : roots) EXPECT_EQ(written(arena, root), pickle);
}

}  // namespace
}  // namespace cairn::pickle
