// SPDX-License-Identifier: BSD-3-Clause
#include "formats/merged/merge_rules.hpp"

#include <gtest/gtest.h>

#include "failure_of.hpp"

namespace cairn {
namespace {

/// A catalogue of objects with the paths that their names spell: "a.#0.b" has a list position in it.
Catalog catalog_of(std::initializer_list<std::string> spelt) {
  Catalog catalog;
  const auto file = catalog.add_file("a file");
  for (const std::string& text : spelt) {
    std::vector<PathStep> path;
    std::string name;
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find('.', at), text.size());
      std::string step = text.substr(at, end - at);
      const bool is_position = step.starts_with('#');
      if (is_position) step.erase(0, 1);
      path.push_back(is_position ? PathStep{std::stoll(step), true}
                                 : PathStep{catalog.add_string(step), false});
      name += (name.empty() ? "" : ".") + step;
      at = end + 1;
    }
    catalog.add_object(catalog.add_string(name), file, 0, 0);
    catalog.set_path(path);
  }
  return catalog;
}

std::vector<std::string> spelt(const Catalog& catalog) {
  std::vector<std::string> out;
  for (const Entry& entry : catalog.entries()) {
    std::string& text = out.emplace_back();
    std::string name;
    for (const PathStep step : catalog.path(entry)) {
      const std::string key = step.is_position ? std::to_string(step.value)
                                               : std::string(catalog.text(static_cast<StringId>(step.value)));
      text += (text.empty() ? "" : ".") + (step.is_position ? "#" + key : key);
      name += (name.empty() ? "" : ".") + key;
    }
    EXPECT_EQ(catalog.name(entry), name);
  }
  return out;
}

using Names = std::vector<std::string>;

Names merged(const Catalog& shards, const Catalog& file, MergeRule rule) {
  return spelt(merge_parts(shards, file, rule).made.catalog);
}

Error refusal(const Catalog& shards, const Catalog& file, MergeRule rule) {
  return failure_of([&] { merge_parts(shards, file, rule); });
}

TEST(MergeRules, TheTrainersFormHasWeightsAndOptimizersLast) {
  const auto shards = catalog_of({"optimizer_1.state", "model.w", "optimizer_0.state.x", "user", "model.b"});
  const auto file = catalog_of({"epoch", "callbacks.c"});
  EXPECT_EQ(merged(shards, file, MergeRule::lightning_trainer),
            (Names{"user", "epoch", "callbacks.c", "state_dict.w", "state_dict.b",
                   "optimizer_states.#0.state.x", "optimizer_states.#1.state"}));
}

TEST(MergeRules, OptimizersAreInNumericOrder) {
  Names expected{"state_dict.w"};
  Catalog shards = catalog_of({"state_dict.w", "optimizer_10.a", "optimizer_2.a", "optimizer_0.a",
                               "optimizer_1.a", "optimizer_3.a", "optimizer_4.a", "optimizer_5.a",
                               "optimizer_6.a", "optimizer_7.a", "optimizer_8.a", "optimizer_9.a"});
  for (int i = 0; i < 11; ++i) expected.push_back("optimizer_states.#" + std::to_string(i) + ".a");
  EXPECT_EQ(merged(shards, {}, MergeRule::lightning_trainer), expected);
}

TEST(MergeRules, KeysThatOnlyLookLikeOptimizersStay) {
  const auto shards =
      catalog_of({"model.w", "optimizer_abc.x", "optimizer_0abc.x", "optimizer_00.x", "optimizer_.x"});
  EXPECT_EQ(merged(shards, {}, MergeRule::lightning_trainer),
            (Names{"optimizer_abc.x", "optimizer_0abc.x", "optimizer_00.x", "optimizer_.x", "state_dict.w"}));
}

TEST(MergeRules, AGapAmongOptimizersIsAnError) {
  const auto error =
      refusal(catalog_of({"model.w", "optimizer_0.x", "optimizer_2.x"}), {}, MergeRule::lightning_trainer);
  EXPECT_EQ(error.kind(), ErrorKind::mismatch);
  EXPECT_TRUE(contains(error, "`optimizer_1` is missing")) << error.what();
}

TEST(MergeRules, ModelBesideStateDictIsAnError) {
  EXPECT_TRUE(contains(refusal(catalog_of({"model.w", "state_dict.w"}), {}, MergeRule::lightning_trainer),
                       "both `model` and `state_dict`"));
}

TEST(MergeRules, WhatIsToBeCalledSoMustBeFree) {
  const auto shards = catalog_of({"model.w", "optimizer_0.x"});
  for (const std::string key : {"state_dict", "model", "optimizer_states"})
    EXPECT_TRUE(contains(refusal(shards, catalog_of({key}), MergeRule::lightning_trainer), key)) << key;
}

TEST(MergeRules, AFabricFolderStaysAsItIs) {
  const auto shards = catalog_of({"net.w", "optim.x"});
  const auto parts = merge_parts(shards, catalog_of({"step"}), MergeRule::lightning_trainer);
  EXPECT_EQ(spelt(parts.made.catalog), (Names{"net.w", "optim.x", "step"}));
  ASSERT_EQ(parts.notes.size(), 1u);
  EXPECT_NE(parts.notes[0].find("Fabric"), std::string::npos);
}

TEST(MergeRules, AsStoredTheFilesTopLevelReplacesTheShards) {
  const auto shards = catalog_of({"model.w", "extra.a", "extra.b"});
  const auto parts = merge_parts(shards, catalog_of({"extra.c"}), MergeRule::lightning_stored);
  EXPECT_EQ(spelt(parts.made.catalog), (Names{"model.w", "extra.c"}));
  ASSERT_EQ(parts.notes.size(), 1u);
  EXPECT_NE(parts.notes[0].find("'extra' of meta.pt replaces"), std::string::npos);
}

TEST(MergeRules, MegatronsDictsAreJoined) {
  const auto shards = catalog_of({"optimizer.state.exp_avg", "model.w"});
  EXPECT_EQ(merged(shards, catalog_of({"optimizer.param_groups", "iteration"}), MergeRule::megatron),
            (Names{"optimizer.state.exp_avg", "model.w", "optimizer.param_groups", "iteration"}));
  const auto error = refusal(shards, catalog_of({"model.w"}), MergeRule::megatron);
  EXPECT_EQ(error.kind(), ErrorKind::mismatch);
  EXPECT_TRUE(contains(error, "'model.w'")) << error.what();
}

TEST(MergeRules, OriginsSayWhereEachCameFrom) {
  const auto shards = catalog_of({"optimizer_0.x", "model.w"});
  const auto made = merge_parts(shards, catalog_of({"epoch"}), MergeRule::lightning_trainer).made;
  ASSERT_EQ(made.objects.size(), 3u);
  const std::pair<std::uint32_t, std::uint32_t> expected[] = {{1, 0}, {0, 1}, {0, 0}};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(made.objects[i].part, expected[i].first);
    EXPECT_EQ(made.objects[i].index, expected[i].second);
  }
  EXPECT_EQ(made.first_files, (std::vector<std::uint32_t>{0, 1}));
}

}  // namespace
}  // namespace cairn
