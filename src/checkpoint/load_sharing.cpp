// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/load_sharing.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <unordered_map>

#include "base/byte_reader.hpp"
#include "engine/box_pieces.hpp"
#include "engine/load_run.hpp"
#include "engine/view_runs.hpp"
#include "plan/compact.hpp"
#include "plan/fingerprint.hpp"

namespace cairn {
namespace {

using BoxIndex = std::pair<std::uint32_t, std::uint32_t>;  // entry of the state, box of it

struct FingerprintKey {
  std::size_t operator()(Fingerprint value) const { return value.low; }
};

std::uint64_t byte_count(const RankState& state, BoxIndex box) {
  return static_cast<std::uint64_t>(element_count(state.box(box.first, box.second).sizes)) *
         element_size(state.dtype(box.first));
}

/// Visits each box that the items fill once, by its first item.
template <class Visit>
void for_each_box_of(std::span<const ReadItem> items, const Visit& visit) {
  std::set<BoxIndex> seen;
  BoxIndex last{~0u, ~0u};
  for (const ReadItem& item : items) {
    const BoxIndex box{item.entry, item.box};
    if (box != std::exchange(last, box) && seen.insert(box).second) visit(box, item.tensor);
  }
}

Fingerprint fingerprint(const RankState& state, BoxIndex index, std::uint32_t tensor) {
  const BoxView box = state.box(index.first, index.second);
  FingerprintHash hash;
  hash.add(tensor, static_cast<std::uint64_t>(state.dtype(index.first)));
  for (std::size_t d = 0; d < box.ndim(); ++d)
    hash.add(static_cast<std::uint64_t>(box.offsets[d]), static_cast<std::uint64_t>(box.sizes[d]));
  return hash.finish();
}

void write(ByteWriter& out, Fingerprint value) {
  out.write(value.low);
  out.write(value.high);
}

Fingerprint read_fingerprint(ByteReader& in) {
  const auto low = in.read<std::uint64_t>();
  return {low, in.read<std::uint64_t>()};
}

/// Rank `me` of the group in the tree of its parcel `number`: its root reads, rank at position p has it from
/// the one at p without its highest bit.
Parcel parcel_in_tree(const std::vector<int>& ranks, int me, std::size_t number) {
  const std::size_t count = ranks.size(), root = number % count;
  const auto mine = static_cast<std::size_t>(std::ranges::lower_bound(ranks, me) - ranks.begin());
  const std::size_t position = (mine + count - root) % count;
  const auto rank_at = [&](std::size_t p) { return ranks[(p + root) % count]; };
  Parcel parcel;
  if (position > 0) parcel.from = rank_at(position - std::bit_floor(position));
  for (std::size_t step = std::bit_ceil(count); step > position && step > 0; step /= 2) {
    if (position + step < count) parcel.to.push_back(rank_at(position + step));
  }
  return parcel;
}

BoxPieces load_pieces(const RankState& state, BoxIndex box) {
  const std::uint64_t element_bytes = element_size(state.dtype(box.first));
  return {state.box(box.first, box.second).sizes, static_cast<std::int64_t>(kLoadPieceBytes / element_bytes)};
}

bool is_reached(const TensorView& view, const DeviceLink* link) {
  return link != nullptr && view.device != nullptr && view.is_contiguous() && link->reaches(*view.device);
}

}  // namespace

Bytes encode_wanted_boxes(const LiveState& state, std::span<const ReadItem> items, const DeviceLink* link) {
  ByteWriter out;
  for_each_box_of(items, [&](BoxIndex box, std::uint32_t tensor) {
    write(out, fingerprint(state.description(), box, tensor));
    out.write(byte_count(state.description(), box));
    out.write<std::uint8_t>(is_reached(state.view(box.first, box.second), link));
  });
  return out.take();
}

std::vector<SharedGroup> find_shared_boxes(std::span<const Bytes> wanted_by_rank, ReadOnce read_once) {
  struct Wanted {
    Fingerprint box;
    std::uint64_t bytes;
    std::vector<int> ranks;
    bool by_devices = true;  // as far as ranks have told
  };
  std::vector<Wanted> boxes;
  std::unordered_map<Fingerprint, std::size_t, FingerprintKey> index;
  for (std::size_t rank = 0; rank < wanted_by_rank.size(); ++rank) {
    ByteReader in(wanted_by_rank[rank], "boxes that a rank wants");
    while (!in.at_end()) {
      const Fingerprint box = read_fingerprint(in);
      const auto bytes = in.read<std::uint64_t>();
      const bool is_on_device = in.read<std::uint8_t>() != 0;
      const auto [found, is_new] = index.try_emplace(box, boxes.size());
      if (is_new) boxes.push_back({box, bytes, {}, true});
      Wanted& known = boxes[found->second];
      known.by_devices = known.by_devices && is_on_device;
      auto& ranks = known.ranks;
      if (ranks.empty() || ranks.back() != static_cast<int>(rank)) ranks.push_back(static_cast<int>(rank));
    }
  }
  struct Group {
    std::vector<Fingerprint> boxes;
    std::uint64_t cost = 0;
  };
  std::map<std::pair<std::vector<int>, bool>, Group> groups;
  for (Wanted& wanted : boxes) {
    if (wanted.ranks.size() < 2) continue;
    const bool by_devices = wanted.by_devices && wanted.ranks.size() == wanted_by_rank.size();
    Group& group = groups[{std::move(wanted.ranks), by_devices}];
    group.boxes.push_back(wanted.box);
    group.cost += std::max(wanted.bytes, kLeastCost);
  }
  std::vector<SharedGroup> out;
  for (auto& [key, group] : groups) {
    const auto& [ranks, by_devices] = key;
    const bool is_worth_it = group.cost >= kLeastSaving / (ranks.size() - 1);
    if (read_once == ReadOnce::on || is_worth_it) out.push_back({ranks, std::move(group.boxes), by_devices});
  }
  return out;
}

Bytes encode(std::span<const SharedGroup> groups) {
  ByteWriter out;
  for (const SharedGroup& group : groups) {
    write_number(out, group.ranks.size());
    for (const int rank : group.ranks) write_number(out, static_cast<std::uint64_t>(rank));
    write_number(out, group.by_devices ? 1 : 0);
    write_number(out, group.boxes.size());
    for (const Fingerprint box : group.boxes) write(out, box);
  }
  return out.take();
}

std::vector<SharedGroup> decode_groups(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "shared boxes");
  std::vector<SharedGroup> groups;
  while (!in.at_end()) {
    SharedGroup& group = groups.emplace_back();
    for (auto count = read_number(in, in.remaining()); count > 0; --count)
      group.ranks.push_back(static_cast<int>(read_number(in)));
    group.by_devices = read_number(in) != 0;
    for (auto count = read_number(in, in.remaining() / 16); count > 0; --count)
      group.boxes.push_back(read_fingerprint(in));
  }
  return groups;
}

// --- one rank
// -----------------------------------------------------------------------------------------------

SharedLoad::SharedLoad(const LiveState& state, std::span<const ReadItem> items,
                       std::span<const SharedGroup> groups)
    : wanted_(state.description().rank()) {
  const RankState& description = state.description();
  std::vector<BoxIndex> boxes;
  std::unordered_map<Fingerprint, std::size_t, FingerprintKey> index;  // the same box again is read alone
  for_each_box_of(items, [&](BoxIndex box, std::uint32_t tensor) {
    index.try_emplace(fingerprint(description, box, tensor), boxes.size());
    boxes.push_back(box);
  });
  std::vector<bool> is_shared(boxes.size(), false);
  for (const SharedGroup& group : groups) {
    if (!std::ranges::binary_search(group.ranks, wanted_.rank())) continue;
    std::vector<BoxIndex> shared;
    for (const Fingerprint box : group.boxes) {
      const std::size_t found = index.at(box);
      is_shared[found] = true;
      shared.push_back(boxes[found]);
    }
    if (group.by_devices)
      add_device_group(state, group, shared);
    else
      add_group(state, group, shared);
  }
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (is_shared[i]) continue;
    const BoxView box = description.box(boxes[i].first, boxes[i].second);
    boxes_.push_back({boxes[i].first,
                      {{box.offsets.begin(), box.offsets.end()}, {box.sizes.begin(), box.sizes.end()}},
                      state.view(boxes[i].first, boxes[i].second),
                      kAlone});
  }
  describe(state);
}

void SharedLoad::add_group(const LiveState& state, const SharedGroup& group,
                           std::span<const std::pair<std::uint32_t, std::uint32_t>> boxes) {
  std::size_t number = 0;
  bool is_open = false;  // the last parcel takes more small boxes
  for (const BoxIndex& box : boxes) {
    const BoxPieces pieces = load_pieces(state.description(), box);
    const std::uint64_t bytes = byte_count(state.description(), box);
    for (std::uint64_t i = 0; i < pieces.count(); ++i) {
      if (!is_open || pieces.count() > 1 || parcels_.back().bytes + bytes > kLoadPieceBytes) {
        parcels_.push_back(parcel_in_tree(group.ranks, wanted_.rank(), number++));
        box_counts_.push_back(0);
      }
      add_part(state, box, pieces.piece(i));
      is_open = pieces.count() == 1;
    }
  }
}

void SharedLoad::add_part(const LiveState& state, std::pair<std::uint32_t, std::uint32_t> box,
                          const Box& piece) {
  Parcel& parcel = parcels_.back();
  const TensorView view = state.view(box.first, box.second).part(piece.offsets, piece.sizes);
  parcel.parts.push_back(view);
  parcel.bytes += view.byte_count();
  if (parcel.from != Parcel::kReadHere) return;
  read_here(state, box, piece, parcels_.size() - 1);
  ++box_counts_.back();
}

// The ranks take turns by pieces; a piece of a contiguous box is a run of its memory.
void SharedLoad::add_device_group(const LiveState& state, const SharedGroup& group,
                                  std::span<const std::pair<std::uint32_t, std::uint32_t>> boxes) {
  std::size_t number = 0;
  for (const BoxIndex& box : boxes) {
    const BoxPieces pieces = load_pieces(state.description(), box);
    for (std::uint64_t i = 0; i < pieces.count(); ++i) {
      const Box piece = pieces.piece(i);
      const int root = group.ranks[number++ % group.ranks.size()];
      for_each_run(state.view(box.first, box.second).part(piece.offsets, piece.sizes),
                   [&](std::byte* run, std::uint64_t bytes) {
                     device_pieces_.push_back({run, bytes, root});
                   });
      if (root == wanted_.rank()) read_here(state, box, piece, kAlone);
    }
  }
}

void SharedLoad::read_here(const LiveState& state, std::pair<std::uint32_t, std::uint32_t> box,
                           const Box& piece, std::size_t parcel) {
  Box global = piece;
  const BoxView whole = state.description().box(box.first, box.second);
  for (std::size_t d = 0; d < global.offsets.size(); ++d) global.offsets[d] += whole.offsets[d];
  boxes_.push_back({box.first, std::move(global),
                    state.view(box.first, box.second).part(piece.offsets, piece.sizes), parcel});
}

void SharedLoad::describe(const LiveState& state) {
  const RankState& description = state.description();
  std::ranges::stable_sort(boxes_, {}, &WantedBox::entry);
  std::size_t at = 0;
  for (std::size_t entry = 0; entry < description.size() && at < boxes_.size(); ++entry) {
    if (boxes_[at].entry != entry) continue;
    first_box_.push_back(at);
    wanted_.add_tensor(description.name(entry), description.dtype(entry), description.shape(entry));
    for (; at < boxes_.size() && boxes_[at].entry == entry; ++at) wanted_.add_box(boxes_[at].box);
  }
}

std::optional<std::size_t> SharedLoad::parcel_of(std::uint32_t entry, std::uint32_t box) const {
  const std::size_t parcel = boxes_[first_box_[entry] + box].parcel;
  return parcel == kAlone ? std::nullopt : std::optional(parcel);
}

}  // namespace cairn
