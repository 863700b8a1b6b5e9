// SPDX-License-Identifier: BSD-3-Clause
#include "plan/names/name_map.hpp"

#include <gtest/gtest.h>

#include "failure_of.hpp"

namespace cairn {
namespace {

TEST(NameMap, ReadsOldAndNewNamesAsLsPrintsThem) {
  const NameMap map = NameMap::parse("a.b\tc\r\n\n\\tx\\\\\\xff\td e\n\tempty\nlast\tline", "m");
  ASSERT_EQ(map.lines().size(), 4u);
  EXPECT_EQ(map.lines()[0].to, "c");
  EXPECT_EQ(map.lines()[1].from, "\tx\\\xff");
  EXPECT_EQ(map.lines()[1].to, "d e");
  EXPECT_EQ(map.find(""), 2u);
  EXPECT_EQ(map.lines()[map.find("last").value()].to, "line");
  EXPECT_FALSE(map.find("c"));
}

void expect_refused(std::string_view text, std::initializer_list<std::string_view> parts) {
  const Error error = failure_of([&] { NameMap::parse(text, "names.tsv"); });
  EXPECT_EQ(error.kind(), ErrorKind::corrupt);
  for (const std::string_view part : parts) EXPECT_TRUE(contains(error, part)) << error.what();
}

TEST(NameMap, NamesTheLineThatIsNoPair) {
  expect_refused("a\tb\nc d\n", {"names.tsv, line 2", "no TAB"});
  expect_refused("a\tb\tc", {"line 1", "two TABs"});
  expect_refused("a\t\n", {"line 1", "new name of 'a' is empty"});
  expect_refused("\n\na\\q\tb", {"line 3", "backslash"});
}

TEST(NameMap, IsInjectiveAndNamesBothLines) {
  expect_refused("a\tx\nb\ty\na\tz\n", {"line 3", "'a' is mapped in line 1"});
  expect_refused("a\tx\nb\tx\n", {"line 2", "'x' is the new name of 'a' in line 1"});
}

}  // namespace
}  // namespace cairn
