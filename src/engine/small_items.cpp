// SPDX-License-Identifier: BSD-3-Clause
#include "engine/small_items.hpp"

#include <algorithm>
#include <tuple>

#include "base/fail.hpp"
#include "base/text.hpp"

namespace cairn {
namespace {

auto order(const SmallItems::Wanted& wanted) { return std::tuple(wanted.item, wanted.chunk, wanted.part); }

bool read_together(Source& source, const FileRange& range, std::span<std::byte> into) {
  try {
    source.read(range.file, range.begin, into);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void SmallItems::visit_all(const Visit& visit) {
  std::ranges::sort(wanted_, {}, order);
  const auto repeated = std::ranges::unique(wanted_, {}, order);
  wanted_.erase(repeated.begin(), repeated.end());
  ranges_.clear();
  for (const Wanted& wanted : wanted_) ranges_.push_back(wanted.item);

  const MergeLimits limits{kMaxItemGap, std::min<std::uint64_t>(kMaxMergedBytes, buffer_.size())};
  for (std::size_t at = 0; at < wanted_.size();) {
    const MergedRead merged = first_merged_read(std::span(ranges_).subspan(at), limits);
    const auto group = std::span(wanted_).subspan(at, merged.count);
    const bool together =
        group.size() > 1 && read_together(source_, merged.span, buffer_.first(merged.span.bytes));
    for (const Wanted& wanted : group) {
      if (together)
        visit(wanted, buffer_.subspan(wanted.item.begin - merged.span.begin, wanted.item.bytes));
      else
        visit_alone(wanted, visit);
    }
    at += merged.count;
  }
  wanted_.clear();
}

void SmallItems::visit_alone(const Wanted& wanted, const Visit& visit) {
  const auto bytes = buffer_.first(wanted.item.bytes);
  const Catalog& catalog = source_.catalog();
  with_context(
      [&] { return fmt::format("'{}'", escape_name(catalog.name(catalog.tensors()[wanted.tensor]))); },
      [&] { source_.read(wanted.item.file, wanted.item.begin, bytes); });
  visit(wanted, bytes);
}

}  // namespace cairn
