// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <numeric>

#include "base/pool.hpp"
#include "base/text.hpp"
#include "plan/fingerprint.hpp"
#include "plan/piece_owners.hpp"
#include "plan/planned_catalog.hpp"

namespace cairn {
namespace {

std::vector<const RankState*> by_rank(std::span<const RankState> states) {
  std::vector<const RankState*> out(states.size(), nullptr);
  for (const RankState& state : states) {
    const auto rank = static_cast<std::size_t>(state.rank());
    if (rank >= out.size() || out[rank] != nullptr) {
      fail(ErrorKind::invalid_argument, "save plan: {} states, and rank {} {}", states.size(), state.rank(),
           rank >= out.size() ? "among them" : "twice");
    }
    out[rank] = &state;
  }
  return out;
}

}  // namespace

class SavePlanner {
 public:
  SavePlanner(std::span<const RankState> states, const SavePlanOptions& options)
      : options_(options),
        states_(by_rank(states)),
        pieces_(states_),
        owners_(pieces_, states_, options),
        next_part_(pieces_.pieces().size(), 0) {
    if (options.files_per_rank == 0) fail(ErrorKind::invalid_argument, "save plan: no file for a rank");
  }

  GlobalSavePlan plan() {
    plan_.parts.resize(states_.size());
    const auto counts = owners_.count_by_owner();
    for (std::size_t rank = 0; rank < counts.size(); ++rank)
      reserve_large(plan_.parts[rank].items_, counts[rank]);
    reserve_large(items_, std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
    for (std::uint32_t held = 0; held < pieces_.held().size(); ++held) give_out(held);
    for (std::uint32_t rank = 0; rank < states_.size(); ++rank) put_in_order(rank);
    PlannedCatalog(states_, pieces_, items_, plan_).build();
    set_ids();
    return std::move(plan_);
  }

 private:
  // Held pieces come by rank, and the parts of each piece lie by owner.
  void give_out(std::uint32_t held) {
    const std::uint32_t piece = pieces_.piece_of(held);
    const auto parts = owners_.parts(piece);
    for (std::uint32_t& next = next_part_[piece];
         next < parts.size() && parts[next].owner == pieces_.held()[held].rank; ++next)
      add_item(pieces_.held()[held], piece, parts[next].index, parts.size());
  }

  void add_item(const Held& held, std::uint32_t piece, std::uint32_t index, std::size_t part_count) {
    SavePlan& part = plan_.parts[held.rank];
    WriteItem item{held.entry, held.box, 0, pieces_.pieces()[piece].bytes};
    const RankState& state = *states_[held.rank];
    if (state.is_tensor(held.entry) && (part_count > 1 || is_void(state.shape(held.entry)))) {
      const Box box = part_box(held, piece, index);
      item.part_at = part.coordinates_.size();
      part.add_coordinates(box);
      item.bytes =
          static_cast<std::uint64_t>(element_count(box.sizes)) * element_size(state.dtype(held.entry));
    } else if (!state.is_tensor(held.entry)) {
      item.bytes = state.object_bytes(held.entry);
    }
    items_.push_back({held.name, {held.rank, static_cast<std::uint32_t>(part.items_.size())}});
    part.items_.push_back(item);
  }

  Box part_box(const Held& held, std::uint32_t piece, std::uint32_t index) const {
    const RankState& state = *states_[held.rank];
    const auto shape = state.shape(held.entry);
    if (is_void(shape)) return {std::vector<std::int64_t>(shape.size(), 0), {shape.begin(), shape.end()}};
    const BoxView whole = state.box(held.entry, held.box);
    Box box{{whole.offsets.begin(), whole.offsets.end()}, {whole.sizes.begin(), whole.sizes.end()}};
    owners_.cut(piece, index, box);
    return box;
  }

  void put_in_order(std::uint32_t rank) {
    std::vector<WriteItem>& items = plan_.parts[rank].items_;
    std::vector<std::uint64_t> bytes(options_.files_per_rank, 0);
    for (WriteItem& item : items) {
      const auto smallest = std::ranges::min_element(bytes);
      item.file = static_cast<std::uint32_t>(smallest - bytes.begin());
      *smallest += std::max<std::uint64_t>(item.bytes, 1);
    }
    const auto group_of = [&](const WriteItem& item) {
      return 2 * std::uint64_t{item.file} + (states_[rank]->is_tensor(item.entry) ? 1 : 0);
    };
    if (std::ranges::is_sorted(items, {}, group_of)) return skip_items(rank);
    std::vector<std::uint32_t> order(items.size()), place(items.size());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::stable_sort(order, {}, [&](std::uint32_t i) { return group_of(items[i]); });
    SavePlan sorted;
    sorted.items_.reserve(items.size());
    for (const std::uint32_t i : order) {
      place[i] = static_cast<std::uint32_t>(sorted.items_.size());
      sorted.items_.push_back(items[i]);
      if (items[i].part_at == WriteItem::kWholeBox) continue;
      sorted.items_.back().part_at = sorted.coordinates_.size();
      const BoxView part = plan_.parts[rank].box(*states_[rank], items[i]);
      sorted.add_coordinates(part);
    }
    plan_.parts[rank] = std::move(sorted);
    for (; next_item_ < items_.size() && items_[next_item_].item.rank == rank; ++next_item_)
      items_[next_item_].item.item = place[items_[next_item_].item.item];
  }

  void skip_items(std::uint32_t rank) {
    while (next_item_ < items_.size() && items_[next_item_].item.rank == rank) ++next_item_;
  }

  void set_ids() {
    std::vector<Fingerprint> prints;
    for (const RankState* state : states_) prints.push_back(state->fingerprint());
    plan_.id = plan_id(prints, options_);
    for (SavePlan& part : plan_.parts) part.id = plan_.id;
  }

  SavePlanOptions options_;
  std::vector<const RankState*> states_;
  HeldPieces pieces_;
  PieceOwners owners_;
  std::vector<std::uint32_t> next_part_;  // of each piece: its parts that are given out already
  std::vector<NamedItem> items_;          // of all ranks, in order of first appearance
  std::size_t next_item_ = 0;
  GlobalSavePlan plan_;
};

GlobalSavePlan plan_save(std::span<const RankState> states, const SavePlanOptions& options) {
  return SavePlanner(states, options).plan();
}

Fingerprint plan_id(std::span<const Fingerprint> states, const SavePlanOptions& options) {
  FingerprintHash hash;
  hash.add(static_cast<std::uint64_t>(options.replicas), options.split_bytes);
  hash.add(options.files_per_rank, states.size());
  for (const Fingerprint& print : states) hash.add(print);
  return hash.finish();
}

}  // namespace cairn
