// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/load_entries.hpp"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>

#include "base/fail.hpp"
#include "base/text.hpp"
#include "plan/compact.hpp"
#include "tensor/cast.hpp"

namespace cairn {
namespace {

constexpr std::size_t kMostNamed = 10;
// Objects that several ranks want are read once and sent to all of them, as long as they are small.
constexpr std::uint64_t kMostCommonObject = 1 << 20, kMostCommonBytes = 16 << 20;

void write_texts(ByteWriter& out, const std::vector<std::string>& texts) {
  write_number(out, texts.size());
  for (const std::string& text : texts) out.counted_text(text);
}

std::vector<std::string> read_texts(ByteReader& in) {
  std::vector<std::string> texts(read_number(in, in.remaining() / 8));
  for (std::string& text : texts) text = in.counted_text();
  return texts;
}

/// R of "__R_i.distcp", also in a folder; -1 for other names.
int rank_of_file(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  int rank = -1, file = -1;
  if (!name.starts_with("__") || !name.ends_with(".distcp")) return -1;
  const char* end = name.data() + name.size();
  const auto first = std::from_chars(name.data() + 2, end, rank);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '_') return -1;
  const auto second = std::from_chars(first.ptr + 1, end, file);
  return second.ec == std::errc() && second.ptr == end - std::string_view(".distcp").size() ? rank : -1;
}

bool may_belong_to_a_rank(const Catalog& catalog, const Entry& entry) {
  return !entry.is_tensor || catalog.tensors()[entry.index].chunk_count <= 1;
}

// Entries of single ranks, on another number of ranks.
class RankEntries {
 public:
  RankEntries(const Catalog& catalog, std::span<const RankFindings> ranks) : catalog_(catalog) {
    std::set<std::string_view> asked;
    for (const RankFindings& one : ranks)
      asked.insert(one.rank_entry_kinds.begin(), one.rank_entry_kinds.end());
    if (asked.empty()) return;
    for (std::uint32_t i = 0; i < catalog.entries().size(); ++i) {
      const Entry& entry = catalog.entries()[i];
      if (!may_belong_to_a_rank(catalog, entry)) continue;
      std::string kind = rank_entry_kind(catalog.name(entry));
      if (kind.empty() || !asked.contains(kind)) continue;
      entries_.push_back(i);
      names_.push_back(catalog.name(entry));
      kinds_.insert(std::move(kind));
    }
  }

  void decide(int ranks, RankEntryPolicy policy, LoadDecision& decision) {
    const int saved = saved_ranks(catalog_);
    changed_ = saved != ranks;
    const RankEntryOutcome outcome = decide_rank_entries(names_, saved, ranks, policy);
    for (const std::size_t i : outcome.dropped) {
      decision.is_dropped[entries_[i]] = true;
      decision.dropped.emplace_back(names_[i]);
    }
    std::ranges::sort(decision.dropped);
    for (const auto& [pattern, lacking] : outcome.lacks) {
      decision.warnings.push_back(
          fmt::format("{} of {} ranks get none of the entries '{}'", lacking, ranks, escape_name(pattern)));
    }
  }

  /// Names that a new rank asks for and no old one had.
  bool may_be_missing(std::string_view name) const {
    return changed_ && kinds_.contains(rank_entry_kind(name));
  }

 private:
  const Catalog& catalog_;
  std::vector<std::uint32_t> entries_;
  std::vector<std::string_view> names_;
  std::set<std::string> kinds_;
  bool changed_ = false;
};

std::vector<std::uint32_t> common_objects(const Catalog& catalog, std::span<const LoadFindings> ranks,
                                          const LoadDecision& decision, ReadOnce read_once, bool everywhere) {
  std::vector<std::uint32_t> common;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < catalog.entries().size(); ++i) {
    const Entry& entry = catalog.entries()[i];
    if (entry.is_tensor || decision.is_dropped[i]) continue;
    const auto wanting = std::ranges::count_if(
        ranks, [&](const LoadFindings& one) { return static_cast<bool>(one.wanted[i]); });
    const StoredItem& item = catalog.objects()[entry.index].item;
    const std::uint64_t size = item.byte_length;
    const bool is_small =
        item.transform == Transform::none && size <= kMostCommonObject && bytes + size <= kMostCommonBytes;
    const bool is_shared = read_once != ReadOnce::off && wanting > 1 && is_small;
    if (wanting == 0 || (everywhere && !is_shared)) continue;
    bytes += size;
    common.push_back(entry.index);
  }
  return common;
}

void warn_of_rounding(std::span<const RankFindings> ranks, std::vector<std::string>& warnings) {
  std::set<std::string_view> rounded;
  for (const RankFindings& one : ranks) rounded.insert(one.rounded.begin(), one.rounded.end());
  if (rounded.empty()) return;
  std::string text =
      fmt::format("values of {} tensor{} are rounded", rounded.size(), rounded.size() == 1 ? "" : "s");
  std::size_t named = 0;
  for (const std::string_view one : rounded) {
    if (named++ == kMostNamed) break;
    text += fmt::format("{}{}", named == 1 ? ": " : ", ", one);
  }
  if (rounded.size() > kMostNamed) text += fmt::format(", and {} more", rounded.size() - kMostNamed);
  warnings.push_back(std::move(text));
}

}  // namespace

int saved_ranks(const Catalog& catalog) {
  int highest = 0;
  for (const std::string& file : catalog.files()) highest = std::max(highest, rank_of_file(file));
  for (const Entry& entry : catalog.entries()) {
    if (!may_belong_to_a_rank(catalog, entry)) continue;
    if (const auto rank = rank_of_entry(catalog.name(entry)))
      highest = static_cast<int>(std::clamp<std::int64_t>(*rank, highest, 0x7ffffffe));
  }
  return highest + 1;
}

Bytes RankFindings::encode() const {
  ByteWriter out;
  write_texts(out, rank_entry_kinds);
  write_texts(out, rounded);
  out.append(findings.encode());
  return out.take();
}

RankFindings RankFindings::decode(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "findings of a rank");
  RankFindings found;
  found.rank_entry_kinds = read_texts(in);
  found.rounded = read_texts(in);
  found.findings = LoadFindings::decode(in.bytes(in.remaining()));
  return found;
}

RankFindings find_out(const Catalog& catalog, const RankState& state, const LoadPlan& plan) {
  std::set<std::string> kinds, rounded;
  for (std::size_t entry = 0; entry < state.size(); ++entry) {
    if (std::string kind = rank_entry_kind(state.name(entry)); !kind.empty()) kinds.insert(std::move(kind));
  }
  for (const ReadItem& item : plan.items()) {
    const TensorInfo& tensor = catalog.tensors()[item.tensor];
    const DType wanted = state.dtype(item.entry);
    if (!may_round(tensor.dtype, wanted)) continue;
    rounded.insert(fmt::format("'{}' ({} as {})", escape_name(catalog.name(tensor)), info(tensor.dtype).name,
                               info(wanted).name));
  }
  return {plan.findings(), {kinds.begin(), kinds.end()}, {rounded.begin(), rounded.end()}};
}

Bytes LoadDecision::encode() const {
  ByteWriter out;
  for (const auto* texts : {&missing, &unexpected, &dropped, &warnings}) write_texts(out, *texts);
  write_number(out, is_dropped.size());
  for (std::size_t i = 0; i < is_dropped.size(); ++i) {
    if (is_dropped[i]) write_number(out, i + 1);
  }
  write_number(out, 0);
  for (const std::uint32_t object : common_objects) write_number(out, object);
  return out.take();
}

LoadDecision LoadDecision::decode(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "decision of a load");
  LoadDecision decision;
  for (auto* texts : {&decision.missing, &decision.unexpected, &decision.dropped, &decision.warnings})
    *texts = read_texts(in);
  decision.is_dropped.resize(read_number(in, 0xffffffff));
  while (const auto entry = read_number(in, decision.is_dropped.size()))
    decision.is_dropped[entry - 1] = true;
  while (!in.at_end())
    decision.common_objects.push_back(static_cast<std::uint32_t>(read_number(in, 0xffffffff)));
  return decision;
}

LoadDecision decide_load(const Catalog& catalog, std::vector<RankFindings> ranks, const LoadOptions& options,
                         bool objects_everywhere) {
  LoadDecision decision;
  decision.is_dropped.assign(catalog.entries().size(), false);
  RankEntries rank_entries(catalog, ranks);
  rank_entries.decide(static_cast<int>(ranks.size()), options.rank_entries, decision);
  warn_of_rounding(ranks, decision.warnings);

  std::vector<LoadFindings> findings;
  for (RankFindings& one : ranks) {
    for (const LoadFault& fault : one.findings.faults) {
      const bool is_missing = fault.kind == LoadFaultKind::missing;
      if (is_missing && rank_entries.may_be_missing(fault.name)) one.findings.missing.push_back(fault.name);
    }
    std::erase_if(one.findings.faults, [&](const LoadFault& fault) {
      return fault.kind == LoadFaultKind::missing && rank_entries.may_be_missing(fault.name);
    });
    findings.push_back(std::move(one.findings));
  }
  LoadVerdict verdict = judge_load(catalog, findings, options.plan);
  std::erase_if(verdict.faults, [&](const LoadFault& fault) {
    return fault.kind == LoadFaultKind::unexpected &&
           std::ranges::binary_search(decision.dropped, fault.name);
  });
  verdict.throw_if_any();
  decision.missing = std::move(verdict.missing);
  std::ranges::set_difference(verdict.unexpected, decision.dropped, std::back_inserter(decision.unexpected));
  decision.common_objects =
      common_objects(catalog, findings, decision, options.read_once, objects_everywhere);
  return decision;
}

}  // namespace cairn
