// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <unordered_map>

#include "base/checked.hpp"
#include "cairn/plan.hpp"
#include "plan/compact.hpp"
#include "plan/held_pieces.hpp"

namespace cairn {
namespace {

constexpr std::uint64_t kMaxIndex = 0xfffffffe;

bool lies_in(BoxView part, BoxView whole) {
  for (std::size_t d = 0; d < whole.ndim(); ++d) {
    if (part.offsets[d] < whole.offsets[d] || part.sizes[d] > whole.sizes[d]) return false;
    if (part.offsets[d] - whole.offsets[d] > whole.sizes[d] - part.sizes[d]) return false;
  }
  return true;
}

// What an item may speak of: one of the state's boxes, the whole of a tensor without elements, an object.
void require_fit(const RankState& state, const WriteItem& item, BoxView part) {
  const bool has_part = item.part_at != WriteItem::kWholeBox;
  const bool is_tensor = state.is_tensor(item.entry);
  const bool is_empty = is_tensor && is_void(state.shape(item.entry));
  const bool fits = !is_tensor ? item.box == 0 && !has_part
                    : is_empty ? item.box == 0 && has_part && inside(part, state.shape(item.entry))
                               : item.box < state.box_count(item.entry) &&
                                     (!has_part || lies_in(part, state.box(item.entry, item.box)));
  if (!fits) fail_corrupt("save plan: entry {} has no such box {}", item.entry, item.box);
}

}  // namespace

BoxView SavePlan::box(const RankState& state, const WriteItem& item) const {
  if (item.part_at == WriteItem::kWholeBox) return state.box(item.entry, item.box);
  const std::size_t ndim = state.shape(item.entry).size();
  const std::span<const std::int64_t> pool(coordinates_);
  return {pool.subspan(item.part_at, ndim), pool.subspan(item.part_at + ndim, ndim)};
}

std::vector<std::byte> SavePlan::encode() const {
  ByteWriter out;
  out.write(id.low);
  out.write(id.high);
  write_number(out, items_.size());
  for (const WriteItem& item : items_) {
    const bool has_part = item.part_at != WriteItem::kWholeBox;
    write_number(out, std::uint64_t{item.entry} << 1 | (has_part ? 1 : 0));
    write_number(out, item.box);
    write_number(out, item.file);
  }
  write_number(out, coordinates_.size());
  write_coordinates(out, coordinates_);
  return out.take();
}

SavePlan SavePlan::decode(std::span<const std::byte> bytes, const RankState& state) {
  ByteReader in(bytes, "save plan");
  SavePlan plan;
  plan.id.low = in.read<std::uint64_t>();
  plan.id.high = in.read<std::uint64_t>();
  plan.items_.resize(read_number(in, in.remaining() / 3));
  std::uint64_t part_at = 0;
  for (WriteItem& item : plan.items_) {
    const std::uint64_t entry = read_number(in, 2 * kMaxIndex);
    if (entry / 2 >= state.size()) fail_corrupt("save plan: entry {} of {}", entry / 2, state.size());
    item.entry = static_cast<std::uint32_t>(entry / 2);
    item.box = static_cast<std::uint32_t>(read_number(in, kMaxIndex));
    item.file = static_cast<std::uint32_t>(read_number(in, kMaxIndex));
    if (entry % 2 == 0) continue;
    item.part_at = part_at;
    part_at += 2 * state.shape(item.entry).size();
  }
  if (read_number(in) != part_at || part_at > in.remaining())
    fail_corrupt("save plan: {} coordinates expected", part_at);
  for (std::uint64_t i = 0; i < part_at; ++i) {
    plan.coordinates_.push_back(
        static_cast<std::int64_t>(read_number(in, std::numeric_limits<std::int64_t>::max())));
  }
  if (!in.at_end()) fail_corrupt("save plan: {} bytes too many", in.remaining());
  for (WriteItem& item : plan.items_) plan.complete(state, item);
  return plan;
}

void SavePlan::add_coordinates(BoxView part) {
  coordinates_.insert(coordinates_.end(), part.offsets.begin(), part.offsets.end());
  coordinates_.insert(coordinates_.end(), part.sizes.begin(), part.sizes.end());
}

void SavePlan::complete(const RankState& state, WriteItem& item) const {
  const bool is_tensor = state.is_tensor(item.entry);
  const bool has_part = item.part_at != WriteItem::kWholeBox;
  require_fit(state, item, has_part && is_tensor ? box(state, item) : BoxView{});
  item.bytes = !is_tensor ? state.object_bytes(item.entry)
                          : static_cast<std::uint64_t>(element_count(box(state, item).sizes)) *
                                element_size(state.dtype(item.entry));
}

namespace {

/// Paths of files as they are needed, each once.
class FileNumbers {
 public:
  FileNumbers(Catalog& catalog, const std::function<std::string(int, std::uint32_t)>& name)
      : catalog_(catalog), name_(name) {}

  std::uint32_t of(std::uint32_t rank, std::uint32_t file) {
    const auto [at, is_new] = numbers_.try_emplace(std::uint64_t{rank} << 32 | file, 0);
    if (is_new) at->second = catalog_.add_file(name_(static_cast<int>(rank), file));
    return at->second;
  }

 private:
  Catalog& catalog_;
  const std::function<std::string(int, std::uint32_t)>& name_;
  std::unordered_map<std::uint64_t, std::uint32_t> numbers_;
};

}  // namespace

Catalog GlobalSavePlan::located(std::span<const std::vector<ItemPlace>> places,
                                const std::function<std::string(int, std::uint32_t)>& file_name) const {
  if (places.size() != parts.size())
    fail(ErrorKind::mismatch, "{} ranks report where they wrote, of {}", places.size(), parts.size());
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    if (places[rank].size() != parts[rank].items().size()) {
      fail(ErrorKind::mismatch, "rank {} reports {} items of {}", rank, places[rank].size(),
           parts[rank].items().size());
    }
  }
  Catalog out = catalog;
  FileNumbers files(out, file_name);
  for (std::uint32_t rank = 0; rank < parts.size(); ++rank)  // in order of ranks, as torch gathers them
    for (const WriteItem& item : parts[rank].items()) files.of(rank, item.file);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const auto [rank, item] = chunks[i];
    const auto [byte_offset, byte_length] = places[rank][item];
    out.place_chunk(i, files.of(rank, parts[rank].items()[item].file), byte_offset, byte_length);
  }
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const auto [rank, item] = objects[i];
    const auto [byte_offset, byte_length] = places[rank][item];
    out.place_object(i, files.of(rank, parts[rank].items()[item].file), byte_offset, byte_length);
  }
  return out;
}

}  // namespace cairn
