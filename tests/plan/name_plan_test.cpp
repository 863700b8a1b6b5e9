// SPDX-License-Identifier: BSD-3-Clause
#include "plan/names/name_plan.hpp"

#include <gtest/gtest.h>

#include "failure_of.hpp"
#include "plan/names_fixture.hpp"

namespace cairn {
namespace {

using Paths = std::vector<std::string>;

NameRules strip(std::initializer_list<const char*> prefixes) {
  NameRules rules;
  for (const char* prefix : prefixes) rules.strip_prefix.push_back(parse_prefix(prefix));
  return rules;
}
NameRules rename(std::initializer_list<const char*> texts) {
  NameRules rules;
  for (const char* text : texts) rules.renames.push_back(parse_rename(text));
  return rules;
}
NameRules map(std::string_view text) {
  NameRules rules;
  rules.map = NameMap::parse(text, "map");
  return rules;
}
NameRules unwrap() {
  NameRules rules;
  rules.unwrap = true;
  return rules;
}
NameRules select(std::initializer_list<const char*> globs, std::initializer_list<const char*> excluded = {}) {
  NameRules rules;
  for (const char* glob : globs) rules.select.emplace_back(glob);
  for (const char* glob : excluded) rules.exclude.emplace_back(glob);
  return rules;
}

void expect_failure(const NameRules& rules, const NamedEntries& entries, ErrorKind kind,
                    std::initializer_list<std::string_view> parts, bool nested = true) {
  const Error error = failure_of([&] { plan_names(rules, entries.all(), nested); });
  EXPECT_EQ(error.kind(), kind) << error.what();
  for (const std::string_view part : parts) EXPECT_TRUE(contains(error, part)) << error.what();
}

// --- select, exclude
// ------------------------------------------------------------------------------------------

TEST(Selection, KeepsWhatSomeSelectAndNoExcludeMatches) {
  const NamedEntries entries{"a/w", "a/b", "b/w", "c"};
  EXPECT_EQ(kept_paths({}, entries), (Paths{"a/w", "a/b", "b/w", "c"}));
  EXPECT_EQ(kept_paths(select({"a.*", "*w"}), entries), (Paths{"a/w", "a/b", "b/w"}));
  EXPECT_EQ(kept_paths(select({"a.*", "*w"}, {"*.w"}), entries), (Paths{"a/b"}));
  EXPECT_EQ(kept_paths(select({}, {"c"}), entries), (Paths{"a/w", "a/b", "b/w"}));
}

TEST(Selection, RefusesGlobsWithoutMatchAndEmptyResults) {
  const NamedEntries entries{"a/w", "b"};
  expect_failure(select({"a.*", "x*"}), entries, ErrorKind::not_found,
                 {"select 'x*' matches none of 2 names"});
  expect_failure(select({}, {"a"}), entries, ErrorKind::not_found, {"exclude 'a'"});
  expect_failure(select({}, {"*"}), entries, ErrorKind::not_found, {"leave none of 2 names"});
  EXPECT_TRUE(kept_paths({}, NamedEntries{}).empty());
}

// An exclude may match only what select has left out already, and a glob only what another one matched.
TEST(Selection, LooksForEachGlobAmongAllNames) {
  EXPECT_EQ(kept_paths(select({"a*", "a.w"}, {"b"}), {"a/w", "b"}), (Paths{"a/w"}));
}

TEST(Selection, LeavesListPositionsAsTheyAre) {
  EXPECT_EQ(kept_paths(select({"l.2.*"}), {"l/#0/w", "l/#1/w", "l/#2/w"}), (Paths{"l/#2/w"}));
}

// --- strip-prefix, rename
// -------------------------------------------------------------------------------------

TEST(StripPrefix, DropsWholeComponentsFromNameAndPath) {
  EXPECT_EQ(kept_paths(strip({"model"}), {"model/net.a/w", "models/b", "opt"}),
            (Paths{"net.a/w", "models/b", "opt"}));
  EXPECT_EQ(kept_paths(strip({"net"}), {"net.a.w", "net_ema.a.w"}), (Paths{"a.w", "net_ema.a.w"}));
  EXPECT_EQ(kept_paths(strip({"model.net"}), {"model/net.a.w", "model/net/b/w"}), (Paths{"a.w", "b/w"}));
}

TEST(StripPrefix, LeavesANameThatIsThePrefix) {
  EXPECT_EQ(kept_paths(strip({"net"}), {"net", "net.a"}, false), (Paths{"net", "a"}));
}

TEST(StripPrefix, TakesTheLongestPrefixOnce) {
  EXPECT_EQ(kept_paths(strip({"a", "a.b"}), {"a/b/c/w", "a/a/w"}), (Paths{"c/w", "a/w"}));
}

TEST(StripPrefix, MakesAKeyOfAPositionThatComesToTheFront) {
  EXPECT_EQ(kept_paths(strip({"l"}), {"l/#0/w", "l/#1/#0"}), (Paths{"0/w", "1/#0"}));
}

TEST(Rename, ReplacesLeadingComponentsAndKeepsTheRestOfThePath) {
  EXPECT_EQ(kept_paths(rename({"net_ema=net"}), {"net_ema.a.w", "net_ema/l/#0/w", "net_emas/x"}),
            (Paths{"net.a.w", "net/l/#0/w", "net_emas/x"}));
  EXPECT_EQ(kept_paths(rename({"l=m"}), {"l/#0", "l/#1/w"}), (Paths{"m/#0", "m/#1/w"}));
  EXPECT_EQ(kept_paths(rename({"step=iteration"}), {"step", "a"}), (Paths{"iteration", "a"}));
}

TEST(Rename, TakesANewNameLiterallyWhereItAddsOrDropsComponents) {
  EXPECT_EQ(kept_paths(rename({"a=x.y"}), {"a/w"}), (Paths{"x.y/w"}));
  EXPECT_EQ(kept_paths(rename({"a.b=x"}), {"a/b/w", "a/b.c/w"}), (Paths{"x/w", "x.c/w"}));
  EXPECT_EQ(kept_paths(rename({"a=a.b"}), {"a/w"}), (Paths{"a.b/w"}));
  EXPECT_EQ(kept_paths(rename({"a.b.c=x.y"}), {"a/b/c/w"}), (Paths{"x.y/w"}));
}

TEST(Rename, KeepsTheNestingWhereComponentsCorrespond) {
  EXPECT_EQ(kept_paths(rename({"a.b=a.c"}), {"a/b/w", "a/d/w"}), (Paths{"a/c/w", "a/d/w"}));
  EXPECT_EQ(kept_paths(rename({"a.b=x.y"}), {"a/b/w", "a.b/v"}), (Paths{"x/y/w", "x.y/v"}));
  EXPECT_EQ(kept_paths(rename({"a.b.c=a.c"}), {"a/b/c/w"}), (Paths{"a/c/w"}));
  EXPECT_EQ(kept_paths(rename({"l.0=m.0"}), {"l/#0/w"}), (Paths{"m/#0/w"}));
  EXPECT_EQ(kept_paths(rename({"l.0=m.7"}), {"l/#0/w"}), (Paths{"m/7/w"}));
}

TEST(Rename, ChangesEachNameOnceByTheLongestRule) {
  EXPECT_EQ(kept_paths(rename({"a=b", "b=a"}), {"a/w", "b/w"}), (Paths{"b/w", "a/w"}));
  EXPECT_EQ(kept_paths(rename({"a=x", "a.b=y"}), {"a/b/w", "a/c"}), (Paths{"y/w", "x/c"}));
}

TEST(Rename, RefusesRulesThatApplyToNothing) {
  expect_failure(rename({"a=x", "b=y"}), {"a/w"}, ErrorKind::not_found, {"rename 'b' applies to no name"});
  expect_failure(strip({"mod"}), {"module/w"}, ErrorKind::not_found, {"strip-prefix 'mod'"});
  expect_failure(rename({"a=x", "a=y"}), {"a/w"}, ErrorKind::invalid_argument, {"rename 'a' is given twice"});
}

TEST(Rename, MakesTheNameTheOnlyKeyWhereThePathDoesNotSpellIt) {
  NamedEntries entries{};
  entries.add_named("a.w", {{"elsewhere"}}).add_named("a.v", {}).add_named("b", {{"kept"}});
  EXPECT_EQ(kept_paths(rename({"a=x"}), entries), (Paths{"x.w", "x.v", "kept"}));
}

TEST(Rename, SaysWhichStepsAreTheRecordedOnes) {
  const NamedEntries entries{"a/l/#3/w"};
  const NamePlan plan = plan_names(rename({"a.l=b.l"}), entries.all(), true);
  const KeptEntry& kept = plan.kept()[0];
  EXPECT_TRUE(kept.is_renamed);
  EXPECT_EQ(kept.name, "b.l.3.w");
  ASSERT_EQ(kept.path.size(), 4u);
  EXPECT_EQ(kept.path[0].recorded, PathKey::kNew);
  for (std::uint32_t i = 1; i < 4; ++i) EXPECT_EQ(kept.path[i].recorded, i);
  EXPECT_TRUE(kept.path[2].is_position());
}

TEST(Rename, KeepsEmptyAndOddComponents) {
  EXPECT_EQ(kept_paths(rename({"a=x"}), {"a//w", ".a", "a.", "\u00e9 /w"}),
            (Paths{"x//w", ".a", "x.", "\u00e9 /w"}));
}

// --- unwrap
// ---------------------------------------------------------------------------------------------------

TEST(Unwrap, DropsWrappersAnywhereInNameAndPath) {
  EXPECT_EQ(kept_paths(unwrap(), {"model/module.a._orig_mod.w", "model/module/_fsdp_wrapped_module/b/w",
                                  "model/module.l/#0/_checkpoint_wrapped_module/w", "step"}),
            (Paths{"model/a.w", "model/b/w", "model/l/#0/w", "step"}));
  EXPECT_EQ(kept_paths(unwrap(), {"module.module.a.w", "module.module.b"}), (Paths{"a.w", "b"}));
}

TEST(Unwrap, LeavesALayerCalledModule) {
  EXPECT_EQ(kept_paths(unwrap(), {"net.module.w", "net.head.w"}), (Paths{"net.module.w", "net.head.w"}));
  EXPECT_EQ(kept_paths(unwrap(), {"module.net.module.w", "module.net.head.w"}),
            (Paths{"net.module.w", "net.head.w"}));
  EXPECT_EQ(kept_paths(unwrap(), {"net.module.w", "net.module"}, false),
            (Paths{"net.module.w", "net.module"}));
  EXPECT_EQ(kept_paths(unwrap(), {"module", "a._orig_mod"}), (Paths{"module", "a._orig_mod"}));
}

TEST(Unwrap, LooksForSiblingsAmongAllNamesNotOnlyTheSelected) {
  NameRules rules = select({"*module*"});
  rules.unwrap = true;
  EXPECT_EQ(kept_paths(rules, {"net.module.w", "net.head.w"}), (Paths{"net.module.w"}));
}

TEST(Unwrap, TakesANameOfVeryManyComponents) {
  std::string modules;
  for (int i = 0; i < 50'000; ++i) modules += "module.";
  EXPECT_EQ(kept_paths(unwrap(), {modules + "w"}, false), (Paths{"w"}));
}

TEST(Unwrap, MayFindNothing) { EXPECT_EQ(kept_paths(unwrap(), {"a/w"}), (Paths{"a/w"})); }

// --- map
// ------------------------------------------------------------------------------------------------------

TEST(Map, KeepsTheStepsThatBothNamesShare) {
  EXPECT_EQ(kept_paths(map("model.net.w\tnet.w\nmodel.l.0\tstate.l.0\nv\tx.y\nu\ta.u\n"),
                       {"model/net/w", "model/l/#0", "v", "u"}),
            (Paths{"net/w", "state/l/#0", "x.y", "a.u"}));
  EXPECT_EQ(kept_paths(map("a.b\ta.b.c\n"), {"a/b"}), (Paths{"a/b.c"}));
  EXPECT_EQ(kept_paths(map("a.b.w\tb.a.w\n"), {"a/b/w"}), (Paths{"b/a/w"}));
}

TEST(Map, NamesWhatItLeavesOver) {
  NamedEntries entries{"a", "x\ty"};
  for (int i = 0; i < 9; ++i) entries.add("b" + std::to_string(i));
  expect_failure(map("a\tc\n"), entries, ErrorKind::mismatch,
                 {"the map has no line for", "'x\\ty', 'b0', 'b1'", "and 2 more"});
}

TEST(Map, ReportsLinesThatNothingUses) {
  NameRules rules = map("a\tb\nz\ty\n");
  const NamedEntries entries{"a"};
  const NamePlan plan = plan_names(rules, entries.all(), true);
  ASSERT_EQ(plan.unused_map_names().size(), 1u);
  EXPECT_EQ(plan.unused_map_names()[0], "z");
}

TEST(Map, ActsOnNamesThatTheOtherRulesMade) {
  NameRules rules = map("n.w\tfinal\n");
  rules.unwrap = true;
  rules.strip_prefix = {"top"};
  rules.renames = {{"m", "n"}};
  EXPECT_EQ(kept_paths(rules, {"top/_orig_mod/m/w"}), (Paths{"final"}));
}

// --- collisions
// -----------------------------------------------------------------------------------------------

TEST(Collisions, NameBothEntriesOldAndNew) {
  expect_failure(rename({"a=b"}), {"a/w", "b/w"}, ErrorKind::mismatch,
                 {"'b.w' (from 'a.w') and 'b.w' have the same name"});
  expect_failure(rename({"a=b"}), {"a/w", "b.w"}, ErrorKind::mismatch, {"the same name"}, false);
}

TEST(Collisions, RefuseALeafUnderALeafInNestedResultsOnly) {
  const NamedEntries entries{"x/w/v", "y/w"};
  expect_failure(rename({"y=x"}), entries, ErrorKind::mismatch,
                 {"'x.w.v' would lie under 'x.w' (from 'y.w')"});
  expect_failure(rename({"y=x"}), {"y/w", "x/w/v"}, ErrorKind::mismatch,
                 {"'x.w.v' would lie under 'x.w' (from 'y.w')"});
  EXPECT_EQ(kept_paths(rename({"y=x"}), entries, false), (Paths{"x/w/v", "x/w"}));
}

TEST(Collisions, RefuseAContainerThatWouldBeDictAndList) {
  expect_failure(rename({"d=l"}), {"l/#0", "d/k"}, ErrorKind::mismatch,
                 {"'l.0'", "'l.k' (from 'd.k')", "dict and a list"});
}

TEST(Collisions, AllowListsThatMeet) {
  EXPECT_EQ(kept_paths(rename({"b=a"}), {"a/#0", "b/#1"}), (Paths{"a/#0", "a/#1"}));
}

// --- cast
// -----------------------------------------------------------------------------------------------------

NameRules casts(std::initializer_list<const char*> texts) {
  NameRules rules;
  for (const char* text : texts) rules.casts.push_back(parse_cast(text));
  return rules;
}

std::vector<DType> kept_dtypes(const NameRules& rules, const NamedEntries& entries) {
  std::vector<DType> out;
  const NamePlan plan = plan_names(rules, entries.all(), true);
  for (const KeptEntry& kept : plan.kept()) out.push_back(kept.dtype);
  return out;
}

NamedEntries mixed() {
  NamedEntries entries{"w", "norm/w"};
  entries.add("d", DType::float64)
      .add("h", DType::float16)
      .add("i", DType::int64)
      .add("q", DType::float8_e4m3fn);
  entries.add("object", DType::uint8, false);
  return entries;
}

TEST(Casts, KeepTypesByDefaultAndLeaveOtherTypesAloneWhenBare) {
  using enum DType;
  EXPECT_EQ(kept_dtypes({}, mixed()),
            (std::vector{float32, float32, float64, float16, int64, float8_e4m3fn, uint8}));
  EXPECT_EQ(kept_dtypes(casts({"bfloat16"}), mixed()),
            (std::vector{bfloat16, bfloat16, bfloat16, bfloat16, int64, float8_e4m3fn, uint8}));
}

TEST(Casts, FollowTheLastMatch) {
  using enum DType;
  EXPECT_EQ(kept_dtypes(casts({"bfloat16", "*norm*=keep"}), {"w", "norm/w"}),
            (std::vector{bfloat16, float32}));
  EXPECT_EQ(kept_dtypes(casts({"*norm*=keep", "bfloat16"}), {"w", "norm/w"}),
            (std::vector{bfloat16, bfloat16}));
  EXPECT_EQ(kept_dtypes(casts({"*=bfloat16", "i=keep", "q=keep"}), mixed()),
            (std::vector{bfloat16, bfloat16, bfloat16, bfloat16, int64, float8_e4m3fn, uint8}));
}

TEST(Casts, MeanNewNames) {
  NameRules rules = casts({"n.*=float16"});
  rules.renames = {{"m", "n"}};
  EXPECT_EQ(kept_dtypes(rules, {"m/w", "o"}), (std::vector{DType::float16, DType::float32}));
}

TEST(Casts, RefuseAGlobThatNamesOtherTypesOrNothing) {
  expect_failure(casts({"*=float16"}), mixed(), ErrorKind::unsupported, {"'i (int64)', 'q (float8_e4m3fn)'"});
  expect_failure(casts({"x*=keep"}), mixed(), ErrorKind::not_found, {"cast 'x*=…' matches no tensor"});
  expect_failure(casts({"object=float16"}), mixed(), ErrorKind::not_found, {"matches no tensor"});
}

}  // namespace
}  // namespace cairn
