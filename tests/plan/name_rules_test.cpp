// SPDX-License-Identifier: BSD-3-Clause
#include "plan/names/name_rules.hpp"

#include <gtest/gtest.h>

#include "failure_of.hpp"
#include "plan/names/output_rules.hpp"

namespace cairn {
namespace {

void expect_usage_error(const Error& error, std::initializer_list<std::string_view> parts) {
  EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
  for (const std::string_view part : parts) EXPECT_TRUE(contains(error, part)) << error.what();
}

TEST(NameRules, TakePrefixesWithOrWithoutTheirDot) {
  EXPECT_EQ(parse_prefix("net."), "net");
  EXPECT_EQ(parse_prefix("a.b"), "a.b");
  const RenameRule rename = parse_rename("net_ema.=net.");
  EXPECT_EQ(rename.from, "net_ema");
  EXPECT_EQ(rename.to, "net");
}

TEST(NameRules, RefuseEmptyPrefixesAndUnclearRenames) {
  for (const char* text : {"", "."})
    expect_usage_error(failure_of([&] { parse_prefix(text); }), {"component"});
  expect_usage_error(failure_of([] { parse_rename("a"); }), {"rename 'a'", "one '='"});
  expect_usage_error(failure_of([] { parse_rename("a=b=c"); }), {"one '='", "map file"});
  expect_usage_error(failure_of([] { parse_rename("=b"); }), {"before the '='"});
  expect_usage_error(failure_of([] { parse_rename("a=."); }), {"after the '='", "strip-prefix"});
}

TEST(NameRules, ReadCasts) {
  EXPECT_FALSE(parse_cast("bfloat16").glob);
  EXPECT_EQ(parse_cast("bfloat16").to, DType::bfloat16);
  EXPECT_EQ(parse_cast("*a=b*=float16").glob->pattern(), "*a=b*");
  EXPECT_EQ(parse_cast("*=keep").to, std::nullopt);
  for (const char* text : {"float64", "keep", "int8", "", "bf16"})
    expect_usage_error(failure_of([&] { parse_cast(text); }), {"float32, float16, bfloat16 expected"});
  expect_usage_error(failure_of([] { parse_cast("*=float64"); }), {"'float64'", "or keep"});
}

TEST(OutputRules, AreTheOptionsBehindAFile) {
  const OutputRules out = parse_output_rules(
      "out/ema.pth:select=net_ema.*,exclude=*.a,exclude=*.b,unwrap,strip-prefix=module,rename=net_ema=net,"
      "map=names.tsv,cast=bfloat16,cast=*norm*=keep");
  EXPECT_EQ(out.file, "out/ema.pth");
  EXPECT_EQ(out.rules.select.at(0).pattern(), "net_ema.*");
  EXPECT_EQ(out.rules.exclude.at(1).pattern(), "*.b");
  EXPECT_TRUE(out.rules.unwrap);
  EXPECT_EQ(out.rules.strip_prefix.at(0), "module");
  EXPECT_EQ(out.rules.renames.at(0).to, "net");
  EXPECT_EQ(out.map_file, "names.tsv");
  EXPECT_EQ(out.rules.casts.size(), 2u);
}

TEST(OutputRules, TakeColonsCommasAndBackslashesByEscapes) {
  const OutputRules out = parse_output_rules(R"(a\:b,c\\.pth:select=x\,y:z\\*,exclude=a\:)");
  EXPECT_EQ(out.file, R"(a:b,c\.pth)");
  EXPECT_EQ(out.rules.select.at(0).pattern(), R"(x,y:z\*)");
  EXPECT_EQ(out.rules.exclude.at(0).pattern(), "a:");
}

TEST(OutputRules, SayWhereTheyAreWrong) {
  const auto refuse = [](const char* text, std::initializer_list<std::string_view> parts) {
    expect_usage_error(failure_of([&] { parse_output_rules(text); }), parts);
  };
  refuse("f.pth", {"output 'f.pth'", "rules are missing"});
  refuse("f.pth:", {"rules are missing"});
  refuse(":unwrap", {"file is missing"});
  refuse("f:unwrap,", {"rule '' at position 10"});
  refuse("f:unwrap,selct=a", {"rule 'selct=a' at position 10", "'selct' found"});
  refuse("f:select", {"rule 'select' at position 3", "select=… expected"});
  refuse("f:unwrap=1", {"unwrap takes no value"});
  refuse("f:unwrap,unwrap", {"unwrap is given twice"});
  refuse("f:map=a,map=b", {"map is given twice"});
  refuse("f:cast=a=int8", {"rule 'cast=a=int8'", "cast 'a=int8'", "bfloat16 or keep"});
  refuse(R"(f:select=a\*)", {"position 11", "after a backslash"});
  refuse(R"(f:select=a\)", {"position 11"});
}

}  // namespace
}  // namespace cairn
