// SPDX-License-Identifier: BSD-3-Clause
#include "plan/names/glob.hpp"

#include <gtest/gtest.h>

#include <fstream>

namespace cairn {
namespace {

bool matches(const char* pattern, std::string_view name) { return Glob(pattern).matches(name); }

TEST(Glob, MeansTheWholeNameAndCrossesDots) {
  EXPECT_TRUE(matches("net.*", "net.a.b.weight"));
  EXPECT_TRUE(matches("net.*", "net."));
  EXPECT_FALSE(matches("net.*", "net"));
  EXPECT_FALSE(matches("net", "net.a"));
  EXPECT_FALSE(matches("Net.*", "net.a"));
  EXPECT_TRUE(matches("*norm*weight", "a.norm1.weight"));
  EXPECT_TRUE(matches("*.?.w", "l.0.w"));
  EXPECT_TRUE(matches("", ""));
  EXPECT_FALSE(matches("", "a"));
  EXPECT_TRUE(matches("**", ""));
}

TEST(Glob, TakesBackslashAndLoneBracketLiterally) {
  EXPECT_TRUE(matches("a\\*", "a\\b"));
  EXPECT_TRUE(matches("a[b", "a[b"));
  EXPECT_TRUE(matches("[]]", "]"));
  EXPECT_TRUE(matches("[!]]", "a"));
  EXPECT_TRUE(matches("[]", "[]"));
  EXPECT_TRUE(matches("[a-]", "-"));
  EXPECT_FALSE(matches("[^a]", "b"));
}

TEST(Glob, TakesOneCodePointOrOneInvalidByteAsACharacter) {
  EXPECT_TRUE(matches("?", "\u00e9"));
  EXPECT_FALSE(matches("??", "\u00e9"));
  EXPECT_FALSE(matches("*??", "\u00e9"));
  EXPECT_TRUE(matches("[\u00e0-\u00ef]", "\u00e9"));
  EXPECT_FALSE(matches("*[!\u00e9]", "\u00e9"));
  EXPECT_TRUE(matches("??", "\xff\xc3"));
}

// Lines "pattern TAB name TAB 0 or 1", from fnmatch.fnmatchcase (tests/data/names/make_globs.py).
TEST(Glob, AgreesWithPythonsFnmatch) {
  std::ifstream in(CAIRN_TEST_DATA "/names/globs.tsv");
  int lines = 0;
  for (std::string line; std::getline(in, line); ++lines) {
    const auto first = line.find('\t'), second = line.find('\t', first + 1);
    const std::string pattern = line.substr(0, first), name = line.substr(first + 1, second - first - 1);
    EXPECT_EQ(Glob(pattern).matches(name), line.substr(second + 1) == "1") << pattern << " on " << name;
  }
  EXPECT_GT(lines, 1000);
}

TEST(Glob, StaysQuickOnPatternsThatBacktrack) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "*a";
  EXPECT_FALSE(Glob(pattern + "b*c").matches(std::string(20'000, 'a')));
}

}  // namespace
}  // namespace cairn
