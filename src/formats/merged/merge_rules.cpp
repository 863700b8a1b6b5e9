// SPDX-License-Identifier: BSD-3-Clause
#include "formats/merged/merge_rules.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <unordered_set>

#include "base/fail.hpp"
#include "base/keyed_hash.hpp"
#include "base/text.hpp"

namespace cairn {
namespace {

constexpr std::string_view kWeights = "state_dict", kOptimizers = "optimizer_states";

/// Of "optimizer_3". Other spellings ("optimizer_03", "optimizer_a") are keys like any other.
std::optional<std::int64_t> optimizer_number(std::string_view key) {
  constexpr std::string_view prefix = "optimizer_";
  if (!key.starts_with(prefix)) return std::nullopt;
  const std::string_view digits = key.substr(prefix.size());
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || std::to_string(number) != digits)
    return std::nullopt;
  return number;
}

bool is_weights(std::string_view key) { return key == "model" || key == kWeights; }

using Keys = std::unordered_set<std::string_view, KeyedHash>;

Keys first_keys(const Catalog& catalog) {
  Keys keys;
  for (const Entry& entry : catalog.entries()) keys.insert(MergedCatalog::first_key(catalog, entry));
  return keys;
}

void require_distinct_names(const Catalog& catalog) {
  Keys names;
  for (const Entry& entry : catalog.entries()) {
    if (!names.insert(catalog.name(entry)).second)
      fail(ErrorKind::mismatch, "'{}' is in the shards and in the file beside them",
           escape_name(catalog.name(entry)));
  }
}

/// The shards' entries by what they are in the Trainer's form.
struct TrainerParts {
  std::vector<const Entry*> others, weights;
  std::map<std::int64_t, std::vector<const Entry*>> optimizers;
};

TrainerParts sorted(const Catalog& shards) {
  TrainerParts parts;
  std::string_view weights;
  for (const Entry& entry : shards.entries()) {
    const std::string_view key = MergedCatalog::first_key(shards, entry);
    const auto optimizer = optimizer_number(key);
    if (is_weights(key)) {
      if (!parts.weights.empty() && key != weights)
        fail(ErrorKind::mismatch, "both `model` and `state_dict` are in it: which are the weights?");
      weights = key;
      parts.weights.push_back(&entry);
    } else {
      (optimizer ? parts.optimizers[*optimizer] : parts.others).push_back(&entry);
    }
  }
  return parts;
}

void require_no_gaps(const TrainerParts& parts) {
  std::int64_t expected = 0;
  for (const auto& [number, entries] : parts.optimizers) {
    if (number != expected++)
      fail(ErrorKind::mismatch, "`optimizer_{}` is missing: `optimizer_{}` is there", expected - 1, number);
  }
}

void require_free(const Keys& of_file, std::string_view key) {
  if (!of_file.contains(key)) return;
  fail(ErrorKind::mismatch, "'{}' is in meta.pt, and what the shards have is to be called so", key);
}

class Merge {
 public:
  Merge(const Catalog& shards, const Catalog& file) : shards_(shards), file_(file) {
    merged_.add_part(shards);
    merged_.add_part(file);
  }

  MergedParts joined() {
    for (const Entry& entry : shards_.entries()) merged_.add(kShards, entry);
    return with_file();
  }

  MergedParts replaced() {
    const Keys of_file = first_keys(file_);
    for (const Entry& entry : shards_.entries()) add_unless(of_file, entry);
    return with_file();
  }

  MergedParts trainer_form() {
    const TrainerParts parts = sorted(shards_);
    if (parts.weights.empty()) {
      notes_.push_back("a Fabric checkpoint, with neither `model` nor `state_dict`: its keys are kept");
      return replaced();
    }
    const Keys of_file = first_keys(file_);
    require_no_gaps(parts);
    for (const std::string_view key : {std::string_view("model"), kWeights}) require_free(of_file, key);
    if (!parts.optimizers.empty()) require_free(of_file, kOptimizers);
    for (const Entry* entry : parts.others) add_unless(of_file, *entry);
    for (const Entry& entry : file_.entries()) merged_.add(kFile, entry);
    add_trainer_parts(parts);
    return taken();
  }

 private:
  static constexpr std::uint32_t kShards = 0, kFile = 1;

  void add_unless(const Keys& of_file, const Entry& entry) {
    const std::string_view key = MergedCatalog::first_key(shards_, entry);
    if (!of_file.contains(key)) return merged_.add(kShards, entry);
    const std::string note = fmt::format("'{}' of meta.pt replaces that of the shards", escape_name(key));
    if (std::ranges::find(notes_, note) == notes_.end()) notes_.push_back(note);
  }

  void add_trainer_parts(const TrainerParts& parts) {
    const PathStep weights = merged_.key(kWeights);
    for (const Entry* entry : parts.weights) merged_.add(kShards, *entry, std::span(&weights, 1));
    if (parts.optimizers.empty()) return;
    const PathStep optimizers = merged_.key(kOptimizers);
    for (const auto& [number, entries] : parts.optimizers) {
      const std::array<PathStep, 2> front{optimizers, {number, true}};
      for (const Entry* entry : entries) merged_.add(kShards, *entry, front);
    }
  }

  MergedParts with_file() {
    for (const Entry& entry : file_.entries()) merged_.add(kFile, entry);
    return taken();
  }

  MergedParts taken() {
    MergedParts parts{merged_.take(), std::move(notes_)};
    require_distinct_names(parts.made.catalog);
    return parts;
  }

  const Catalog &shards_, &file_;
  MergedCatalog merged_;
  std::vector<std::string> notes_;
};

}  // namespace

MergedParts merge_parts(const Catalog& shards, const Catalog& file, MergeRule rule) {
  Merge merge(shards, file);
  switch (rule) {
    case MergeRule::lightning_trainer:
      return merge.trainer_form();
    case MergeRule::lightning_stored:
      return merge.replaced();
    case MergeRule::megatron:
      break;
  }
  return merge.joined();
}

}  // namespace cairn
