// SPDX-License-Identifier: BSD-3-Clause
// Row: plan. Who writes what in a save, and who reads what in a load: plans as data, made by pure functions
// that give all ranks the same result. Local; no I/O, no communication.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/box.hpp"
#include "cairn/metadata.hpp"
#include "cairn/state.hpp"

namespace cairn {

// --- saving --------------------------------------------------------------------------------------------

/// Who of the ranks that hold the same box, or the same object, writes it.
enum class ReplicaRule : std::uint8_t {
  balanced,     ///< the one with the fewest bytes planned so far; of these the lowest
  lowest_rank,  ///< the lowest; ranks may be left with nothing to write
};

struct SavePlanOptions {
  ReplicaRule replicas = ReplicaRule::balanced;
  /// A replicated box of more bytes is cut along one dimension, into pieces of about this size but no more
  /// than ranks hold it. They are given out as under `balanced`. 0: never.
  std::uint64_t split_bytes = 0;
  /// Files of one rank; its items are spread over them by bytes.
  std::uint32_t files_per_rank = 1;
};

/// One box or object that a rank writes.
struct WriteItem {
  static constexpr std::uint64_t kWholeBox = ~std::uint64_t{0};

  std::uint32_t entry;  ///< of the rank's own state
  std::uint32_t box;    ///< of that entry; 0 for an object and for a tensor without elements
  std::uint32_t file;   ///< of the rank's files, from 0
  std::uint64_t bytes;  ///< of the elements; of an object what the state says
  std::uint64_t part_at = kWholeBox;
};

/// What one rank writes, in order of writing: file by file, objects before tensors, else as in its state.
/// Ranks without items are normal. Tensors without elements are one item, of an empty box.
class SavePlan {
 public:
  /// Of the whole plan this is a part of: the same for all ranks.
  Fingerprint id;

  std::span<const WriteItem> items() const { return items_; }
  /// The part of its tensor that an item covers, in global coordinates. `state` is the one the plan was made
  /// for, or one with the same fingerprint; it owns the coordinates.
  BoxView box(const RankState& state, const WriteItem& item) const;

  /// Binary form for the wire. decode() throws corrupt on what does not fit `state`, the receiver's own.
  std::vector<std::byte> encode() const;
  static SavePlan decode(std::span<const std::byte> bytes, const RankState& state);

 private:
  friend class SavePlanner;
  void add_coordinates(BoxView part);
  void complete(const RankState& state, WriteItem& item) const;

  std::vector<WriteItem> items_;
  std::vector<std::int64_t> coordinates_;  // of parts, in order of the items: offsets, then sizes
};

struct PlannedItem {
  std::uint32_t rank, item;  ///< item: index into the items of the rank's plan
};

/// Where an item has been stored in its file.
struct ItemPlace {
  std::uint64_t byte_offset, byte_length;
};

/// The plan of all ranks, as the coordinator has it.
struct GlobalSavePlan {
  Fingerprint id;
  std::vector<SavePlan> parts;  ///< by rank
  /// What the checkpoint will hold; chunks and objects have no place yet. Entries in order of first
  /// appearance in the parts, rank by rank, each in the order of the rank's state: PyTorch's order. A
  /// tensor's chunks likewise.
  Catalog catalog;
  std::vector<PlannedItem> chunks, objects;  ///< for each chunk and object of the catalogue

  /// The catalogue with places. `places[rank][item]` as the ranks report them; `file_name(rank, file)` gives
  /// the path of a rank's file, and is called for files that hold something, in order of ranks. Throws
  /// mismatch when a rank does not report on each of its items.
  Catalog located(std::span<const std::vector<ItemPlace>> places,
                  const std::function<std::string(int rank, std::uint32_t file)>& file_name) const;
};

/// The id of the plan that these states, by their fingerprints in order of ranks, will get.
Fingerprint plan_id(std::span<const Fingerprint> states, const SavePlanOptions& options);

/// Plans a save. `states`: one for each rank 0 … n - 1, in any order; the order makes no difference. Replicas
/// are the same box of a tensor, or an object's name, on several ranks: one of them is written. Boxes of more
/// than one rank that overlap otherwise are a fault.
///
/// It is proven that every element of every tensor is written exactly once. Throws mismatch otherwise, with
/// the first ten faults, by tensor, box and rank; likewise when ranks differ about dtype, shape, kind or path
/// of a name, when two paths exclude each other, and when an object of one rank turns up on two.
/// O(n log n) for n items whatever their arrangement, and some 200 bytes an item.
GlobalSavePlan plan_save(std::span<const RankState> states, const SavePlanOptions& options = {});

/// Plans of the last few shapes of a state, kept by id. A rank keeps its own part, the coordinator the whole.
template <class Plan>
class PlanCache {
 public:
  explicit PlanCache(std::size_t capacity = 2) : capacity_(capacity) {}

  /// nullptr when there is none.
  std::shared_ptr<const Plan> find(Fingerprint id) const {
    for (const auto& plan : plans_) {
      if (plan->id == id) return plan;
    }
    return nullptr;
  }
  /// Drops the plan that was stored longest ago when there are too many.
  void store(std::shared_ptr<const Plan> plan) {
    if (find(plan->id)) return;
    if (plans_.size() == capacity_) plans_.erase(plans_.begin());
    plans_.push_back(std::move(plan));
  }

 private:
  std::size_t capacity_;
  std::vector<std::shared_ptr<const Plan>> plans_;
};

// --- loading -------------------------------------------------------------------------------------------

struct LoadPlanOptions {
  /// Names that only the state or only the checkpoint has are faults; false: they are reported only.
  bool strict = true;
  /// Globs of names that may be missing in, or may be left over from, the checkpoint although `strict`.
  std::vector<std::string> allow_missing, allow_unexpected;
  /// Globs of tensors that may be stored in another floating-point type than wanted: as float64, float32,
  /// float16 or bfloat16, wanted as one of the last three.
  std::vector<std::string> cast;
};

/// The part of a wanted box that one chunk has.
struct ReadItem {
  std::uint32_t entry, box;  ///< of the rank's state: where it goes
  std::uint32_t tensor;      ///< of the catalogue
  std::uint64_t chunk;       ///< of the catalogue
  std::uint64_t overlap_at;  ///< for LoadPlan::overlap()
};

struct ObjectRead {
  std::uint32_t entry;   ///< of the rank's state
  std::uint32_t object;  ///< of the catalogue
  /// 0: the whole object. Else a value inside of one that was saved whole, as torch before 2.4 does with
  /// dicts and lists without tensors: where its path in the object begins in the entry's name.
  std::uint32_t path_at = 0;
};

enum class LoadFaultKind : std::uint8_t { missing, unexpected, kind, shape, dtype, hole };
std::string_view to_string(LoadFaultKind kind);

struct LoadFault {
  LoadFaultKind kind;
  std::string name;
  std::string message;  ///< a sentence with name and both sides

  friend bool operator==(const LoadFault&, const LoadFault&) = default;
};

/// What one rank found out, for the report of all.
struct LoadFindings {
  int rank = 0;
  std::vector<LoadFault> faults;     ///< all but unexpected names, which need all ranks
  std::vector<std::string> missing;  ///< names that may be missing and are; they are not loaded
  std::vector<bool> wanted;          ///< for each entry of the catalogue

  /// Binary form for the wire. decode() throws corrupt on what encode() did not write.
  std::vector<std::byte> encode() const;
  static LoadFindings decode(std::span<const std::byte> bytes);
};

/// What one rank reads, in file order: by file, then by byte offset. Each element that it wants, and the
/// checkpoint has, is in exactly one item.
class LoadPlan {
 public:
  std::span<const ReadItem> items() const { return items_; }
  std::span<const ObjectRead> objects() const { return objects_; }
  const LoadFindings& findings() const { return findings_; }

  /// The part in global coordinates.
  BoxView overlap(const Catalog& catalog, const ReadItem& item) const {
    const std::size_t ndim = catalog.tensors()[item.tensor].ndim;
    const std::span<const std::int64_t> pool(coordinates_);
    return {pool.subspan(item.overlap_at, ndim), pool.subspan(item.overlap_at + ndim, ndim)};
  }
  /// The same within the chunk, and within the wanted box.
  Box in_chunk(const Catalog& catalog, const ReadItem& item) const;
  Box in_wanted(const Catalog& catalog, const RankState& state, const ReadItem& item) const;

 private:
  friend class LoadPlanner;

  std::vector<ReadItem> items_;
  std::vector<ObjectRead> objects_;
  std::vector<std::int64_t> coordinates_;  // of overlaps: offsets, then sizes
  LoadFindings findings_;
};

/// Plans what one rank reads. `wanted` lists the boxes in any layout, also overlapping ones. Nothing is
/// thrown for what does not fit: it is left out of the items and noted in the findings, of which judge_load()
/// makes the one report. The chunks of each tensor tile it (a check of the source's own); where they leave a
/// hole in a wanted box, that is a finding.
///
/// Takes time in proportion to the chunks of the wanted tensors and to the overlaps, never to their product
/// with the wanted boxes. Throws invalid_argument when a name is wanted twice.
LoadPlan plan_load(const Catalog& catalog, const RankState& wanted, const LoadPlanOptions& options = {});

/// The one report of all ranks.
struct LoadVerdict {
  std::vector<LoadFault> faults;                 ///< each once, with the first rank that met it
  std::vector<std::string> missing, unexpected;  ///< tolerated; sorted

  /// Throws mismatch with all faults (beyond a thousand their number) and the count of each kind.
  void throw_if_any() const;
};
LoadVerdict judge_load(const Catalog& catalog, std::span<const LoadFindings> findings,
                       const LoadPlanOptions& options = {});

// --- entries of single ranks ---------------------------------------------------------------------------

/// What happens to the entries of single ranks (`dataloader.dp_rank_3`) when the number of ranks changes.
enum class RankEntryPolicy : std::uint8_t {
  refuse,  ///< it is an error
  keep,    ///< those of ranks that there still are, are loaded; the rest is left alone
  drop,    ///< none is loaded
};

struct RankEntryOutcome {
  std::vector<std::size_t> loaded, dropped;  ///< indices into the names: entries of single ranks, ascending
  /// For each kind of entry that some new rank has none of: its name with `*` for the number, and how many.
  struct Lack {
    std::string pattern;
    std::int64_t ranks;
  };
  std::vector<Lack> lacks;
};

/// The name of an entry of a single rank with `*` for the rank's number; empty for other names.
std::string rank_entry_kind(std::string_view name);
/// That number.
std::optional<std::int64_t> rank_of_entry(std::string_view name);

/// Looks for names with a component that ends in "rank_" and a number ("rank_0", "dp_rank_3"; the first such
/// component counts), and decides what becomes of them. With equal numbers of ranks all are loaded, and
/// nothing is dropped or lacks. Pass names of objects and of tensors that are not cut: others don't belong to
/// ranks. Throws mismatch under `refuse` when the numbers of ranks differ and there are such names, listing
/// some; invalid_argument for numbers of ranks below 1.
RankEntryOutcome decide_rank_entries(std::span<const std::string_view> names, int saved_ranks, int ranks,
                                     RankEntryPolicy policy = RankEntryPolicy::refuse);

}  // namespace cairn
