// SPDX-License-Identifier: BSD-3-Clause
#include "plan/layout_rules.hpp"

#include <gtest/gtest.h>

#include "failure_of.hpp"

namespace cairn {
namespace {

using Dim = std::optional<std::size_t>;

TEST(LayoutRules, TheLastThatMatchesDecides) {
  const auto rules = LayoutRules::parse(
      "# rows but for\n\n*.bias\treplicated\r\n *.weight   shard(1) \nhead.* shard(0)", "f");
  EXPECT_EQ(rules.dim_of("a.bias", 3), Dim());
  EXPECT_EQ(rules.dim_of("a.weight", 3), Dim(1));
  EXPECT_EQ(rules.dim_of("head.bias", 3), Dim(0));
  EXPECT_EQ(rules.dim_of("other", 3), Dim(3));
}

TEST(LayoutRules, AGlobMayHaveSpaces) {
  EXPECT_EQ(LayoutRules::parse("a b replicated", "f").dim_of("a b", 0), Dim());
}

TEST(LayoutRules, WhatIsNoRuleIsNamedByItsLine) {
  for (const auto text : {"* rows", "* shard()", "* shard(-1)", "* shard(1", "* shard(x)", "replicated"}) {
    const auto error = failure_of([&] { LayoutRules::parse(std::string("\n") + text, "rules.txt"); });
    EXPECT_EQ(error.kind(), ErrorKind::corrupt);
    EXPECT_TRUE(contains(error, "rules.txt, line 2")) << error.what();
  }
}

TEST(LayoutRules, ARuleWithoutUseIsNamed) {
  const auto rules = LayoutRules::parse("a* replicated\nb* shard(0)", "f");
  rules.require_use({"ax", "bx"});
  const auto error = failure_of([&] { rules.require_use({"ax"}); });
  EXPECT_EQ(error.kind(), ErrorKind::not_found);
  EXPECT_TRUE(contains(error, "f, line 2: no tensor matches 'b*'")) << error.what();
}

}  // namespace
}  // namespace cairn
