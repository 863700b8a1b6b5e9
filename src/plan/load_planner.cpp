// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <tuple>

#include "base/fail.hpp"
#include "base/text.hpp"
#include "cairn/plan.hpp"
#include "plan/chunk_grid.hpp"
#include "plan/name_index.hpp"
#include "plan/names/glob.hpp"
#include "tensor/cast.hpp"

namespace cairn {
namespace {

// Up to so many boxes, looking at all chunks of a tensor costs less than an index of them.
constexpr std::size_t kFewBoxes = 8;

std::vector<Glob> globs(const std::vector<std::string>& patterns) {
  std::vector<Glob> out;
  for (const std::string& pattern : patterns) out.emplace_back(pattern);
  return out;
}

bool any_matches(const std::vector<Glob>& globs, std::string_view name) {
  return std::ranges::any_of(globs, [&](const Glob& glob) { return glob.matches(name); });
}

Box moved(BoxView box, std::span<const std::int64_t> origin) {
  Box out{{box.offsets.begin(), box.offsets.end()}, {box.sizes.begin(), box.sizes.end()}};
  for (std::size_t d = 0; d < origin.size(); ++d) out.offsets[d] -= origin[d];
  return out;
}

}  // namespace

class LoadPlanner {
 public:
  LoadPlanner(const Catalog& catalog, const RankState& wanted, const LoadPlanOptions& options)
      : catalog_(catalog),
        wanted_(wanted),
        strict_(options.strict),
        allow_missing_(globs(options.allow_missing)),
        cast_(globs(options.cast)) {
    plan_.findings_.rank = wanted.rank();
    plan_.findings_.wanted.assign(catalog.entries().size(), false);
    is_named_.assign(catalog.entries().size(), false);
    names_.reserve(catalog.entries().size());
    for (const Entry& entry : catalog.entries()) {
      if (names_.add(catalog.name(entry)) != names_.size() - 1)
        fail_corrupt("'{}' is twice in the checkpoint", escape_name(catalog.name(entry)));
    }
  }

  LoadPlan plan() {
    for (std::uint32_t entry = 0; entry < wanted_.size(); ++entry) add(entry);
    put_in_file_order();
    return std::move(plan_);
  }

 private:
  void add(std::uint32_t entry) {
    const std::string_view name = wanted_.name(entry);
    const std::uint32_t number = names_.find(name);
    if (number == NameIndex::kNone) return add_part(entry) ? void() : add_missing(name);
    if (is_named_[number]) {
      fail(ErrorKind::invalid_argument, "'{}' is twice in the state of rank {}", escape_name(name),
           wanted_.rank());
    }
    is_named_[number] = true;
    plan_.findings_.wanted[number] = true;
    const Entry& stored = catalog_.entries()[number];
    if (stored.is_tensor != wanted_.is_tensor(entry)) {
      return add_fault(LoadFaultKind::kind, name, stored.is_tensor ? "a tensor" : "an object",
                       stored.is_tensor ? "an object" : "a tensor");
    }
    if (!stored.is_tensor) return plan_.objects_.push_back({entry, stored.index, 0});
    if (fits(entry, catalog_.tensors()[stored.index])) add_tensor(entry, stored.index);
  }

  /// Of an object that is stored under the beginning of the name. Whether it has the part is seen when it is
  /// read.
  bool add_part(std::uint32_t entry) {
    const std::string_view name = wanted_.name(entry);
    if (wanted_.is_tensor(entry) || !rank_entry_kind(name).empty()) return false;
    for (auto end = name.rfind('.'); end != 0 && end != name.npos; end = name.rfind('.', end - 1)) {
      const std::uint32_t number = names_.find(name.substr(0, end));
      if (number == NameIndex::kNone) continue;
      const Entry& stored = catalog_.entries()[number];
      if (stored.is_tensor) return false;
      plan_.findings_.wanted[number] = true;
      plan_.objects_.push_back({entry, stored.index, static_cast<std::uint32_t>(end + 1)});
      return true;
    }
    return false;
  }

  void add_missing(std::string_view name) {
    if (!strict_ || any_matches(allow_missing_, name))
      plan_.findings_.missing.emplace_back(name);
    else
      plan_.findings_.faults.push_back({LoadFaultKind::missing, std::string(name),
                                        fmt::format("'{}' is not in the checkpoint", escape_name(name))});
  }

  void add_fault(LoadFaultKind kind, std::string_view name, std::string_view stored,
                 std::string_view wanted) {
    plan_.findings_.faults.push_back(
        {kind, std::string(name),
         fmt::format("'{}' is {} in the checkpoint, {} in the state", escape_name(name), stored, wanted)});
  }

  bool fits(std::uint32_t entry, const TensorInfo& stored) {
    const std::string_view name = wanted_.name(entry);
    const auto have = catalog_.shape(stored), want = wanted_.shape(entry);
    const bool same_shape = std::ranges::equal(have, want);
    if (!same_shape) {
      add_fault(LoadFaultKind::shape, name, fmt::format("of shape {}", to_string(have)),
                fmt::format("of shape {}", to_string(want)));
    }
    const DType from = stored.dtype, to = wanted_.dtype(entry);
    const bool same_dtype = from == to || (can_cast(from, to) && any_matches(cast_, name));
    if (!same_dtype) add_fault(LoadFaultKind::dtype, name, info(from).name, info(to).name);
    return same_shape && same_dtype;
  }

  void add_tensor(std::uint32_t entry, std::uint32_t tensor) {
    const TensorInfo& stored = catalog_.tensors()[tensor];
    const auto chunks = catalog_.chunks(stored);
    const auto chunk_box = [&](std::size_t i) { return catalog_.box(stored, chunks[i]); };
    const auto count = static_cast<std::uint32_t>(wanted_.box_count(entry));
    if (count > kFewBoxes && chunks.size() > kFewBoxes) {
      const ChunkIndex index(catalog_.shape(stored), chunks.size(), chunk_box);
      for (std::uint32_t box = 0; box < count; ++box) {
        Sum sum = 0;
        index.for_each_overlap(wanted_.box(entry, box), [&](std::size_t i) {
          add_overlap({entry, box, tensor}, i, chunk_box(i), sum);
        });
        require_whole(entry, box, sum);
      }
      return;
    }
    for (std::uint32_t box = 0; box < count; ++box) {
      Sum sum = 0;
      for (std::size_t i = 0; i < chunks.size(); ++i) add_overlap({entry, box, tensor}, i, chunk_box(i), sum);
      require_whole(entry, box, sum);
    }
  }

  struct Target {
    std::uint32_t entry, box, tensor;
  };
  using Sum = unsigned __int128;  // of elements: those of overlapping chunks, too

  void add_overlap(const Target& target, std::size_t chunk, BoxView chunk_box, Sum& sum) {
    const BoxView wanted = wanted_.box(target.entry, target.box);
    if (!overlaps(chunk_box, wanted) || !intersect(chunk_box, wanted, overlap_)) return;
    auto& pool = plan_.coordinates_;
    plan_.items_.push_back({target.entry, target.box, target.tensor,
                            catalog_.tensors()[target.tensor].first_chunk + chunk, pool.size()});
    pool.insert(pool.end(), overlap_.offsets.begin(), overlap_.offsets.end());
    pool.insert(pool.end(), overlap_.sizes.begin(), overlap_.sizes.end());
    sum += static_cast<Sum>(element_count(overlap_.sizes));
  }

  void require_whole(std::uint32_t entry, std::uint32_t box, Sum found) {
    const BoxView wanted = wanted_.box(entry, box);
    const std::int64_t expected = element_count(wanted.sizes);
    if (found == static_cast<Sum>(expected)) return;
    const std::string_view name = wanted_.name(entry);
    plan_.findings_.faults.push_back(
        {LoadFaultKind::hole, std::string(name),
         fmt::format("'{}': the chunks hold {} than the {} elements of {}", escape_name(name),
                     found < static_cast<Sum>(expected) ? "fewer" : "more", expected, to_string(wanted))});
  }

  void put_in_file_order() {
    struct Place {
      std::uint32_t file, item;
      std::uint64_t byte_offset;
    };
    std::vector<Place> places;
    places.reserve(plan_.items_.size());
    for (std::uint32_t i = 0; i < plan_.items_.size(); ++i) {
      const StoredItem& chunk = catalog_.chunks()[plan_.items_[i].chunk];
      places.push_back({chunk.file, i, chunk.byte_offset});
    }
    std::ranges::sort(places, {}, [](const Place& p) { return std::tuple(p.file, p.byte_offset, p.item); });
    std::vector<ReadItem> sorted;
    sorted.reserve(places.size());
    for (const Place& place : places) sorted.push_back(plan_.items_[place.item]);
    plan_.items_ = std::move(sorted);
    std::ranges::sort(plan_.objects_, {}, [&](const ObjectRead& read) {
      const StoredItem& stored = catalog_.objects()[read.object].item;
      return std::tuple(stored.file, stored.byte_offset, read.entry);
    });
  }

  const Catalog& catalog_;
  const RankState& wanted_;
  bool strict_;
  std::vector<Glob> allow_missing_, cast_;
  NameIndex names_;             // of the catalogue's entries, by their index
  std::vector<bool> is_named_;  // of the catalogue's entries: by one of the state
  Box overlap_;
  LoadPlan plan_;
};

LoadPlan plan_load(const Catalog& catalog, const RankState& wanted, const LoadPlanOptions& options) {
  return LoadPlanner(catalog, wanted, options).plan();
}

Box LoadPlan::in_chunk(const Catalog& catalog, const ReadItem& item) const {
  const BoxView chunk = catalog.box(catalog.tensors()[item.tensor], catalog.chunks()[item.chunk]);
  return moved(overlap(catalog, item), chunk.offsets);
}

Box LoadPlan::in_wanted(const Catalog& catalog, const RankState& state, const ReadItem& item) const {
  return moved(overlap(catalog, item), state.box(item.entry, item.box).offsets);
}

}  // namespace cairn
