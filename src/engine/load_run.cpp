// SPDX-License-Identifier: BSD-3-Clause
#include "engine/load_run.hpp"

#include <algorithm>

#include "base/crc32.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "engine/storage_crc.hpp"
#include "parallel/polling.hpp"
#include "tensor/strided_copy.hpp"

namespace cairn {
namespace {

constexpr std::size_t kCrcStepBytes = 256 << 10;

}  // namespace

LoadRun::LoadRun(Source& source, const LoadPlan& plan, std::span<const ReadItem> items,
                 const RankState& wanted, Views views, LoadRunOptions options)
    : source_(source),
      plan_(plan),
      items_(items),
      wanted_(wanted),
      views_(std::move(views)),
      options_(std::move(options)) {
  cut();
  if (options_.box_done) count_boxes();
}

// An element may be wider in the file or in memory: both have to fit the buffers.
BoxPieces LoadRun::pieces_of(const ReadItem& item) const {
  const DType stored = source_.catalog().tensors()[item.tensor].dtype, wanted = wanted_.dtype(item.entry);
  const auto element_bytes = std::max(element_size(stored), element_size(wanted));
  return {plan_.overlap(source_.catalog(), item).sizes,
          static_cast<std::int64_t>(kLoadPieceBytes / element_bytes)};
}

void LoadRun::cut() {
  std::vector<bool> is_joint(items_.size(), false);
  if (options_.joint != nullptr) {
    for (const JointPart& part : options_.joint->mine()) is_joint[part.item] = true;
  }
  std::uint64_t batch_bytes = kMaxMergedBytes;  // of the unit before, when that is one of small items
  for (std::uint32_t i = 0; i < items_.size(); ++i) {
    if (is_joint[i]) {
      batch_bytes = kMaxMergedBytes;
      continue;
    }
    if (const auto small = source_.small_item(items_[i].chunk)) {
      if (batch_bytes >= kMaxMergedBytes) {
        units_.push_back({i, 0, 0});
        batch_bytes = 0;
      }
      ++units_.back().count;
      batch_bytes += small->bytes;
      continue;
    }
    batch_bytes = kMaxMergedBytes;
    const std::uint64_t pieces = pieces_of(items_[i]).count();
    for (std::uint64_t piece = 0; piece < pieces; ++piece) units_.push_back({i, 0, piece});
  }
}

void LoadRun::count_boxes() {
  std::size_t boxes = 0;
  for (std::size_t entry = 0; entry < wanted_.size(); ++entry) {
    first_box_.push_back(boxes);
    boxes += wanted_.box_count(entry);
  }
  left_ = std::make_unique<std::atomic<std::uint32_t>[]>(boxes);
  const auto count = [&](const ReadItem& item, std::uint32_t times = 1) {
    left_[first_box_[item.entry] + item.box] += times;
  };
  for (const Unit& unit : units_) {
    for (std::uint32_t i = 0; i < std::max(unit.count, 1u); ++i) count(items_[unit.first + i]);
  }
  if (options_.joint == nullptr) return;
  for (const JointPart& part : options_.joint->mine())
    count(items_[part.item], options_.joint->unit_count(part));
}

void LoadRun::arrived(const ReadItem& item) {
  if (left_ && --left_[first_box_[item.entry] + item.box] == 0) options_.box_done(item.entry, item.box);
}

// --- one thread -------------------------------------------------------------------------------------------

class LoadRun::Thread {
 public:
  explicit Thread(LoadRun& run)
      : run_(run),
        source_(run.source_),
        catalog_(run.source_.catalog()),
        scratch_(kLoadPieceBytes),
        reader_(run.source_, scratch_),
        small_items_(run.source_, scratch_),
        locator_(run.source_.item_locator()) {}

  void take(const Unit& unit) {
    if (unit.count == 0) return read_piece(run_.items_[unit.first], unit.piece);
    for (std::uint32_t i = unit.first; i < unit.first + unit.count; ++i) {
      const ReadItem& item = run_.items_[i];
      small_items_.want({*source_.small_item(item.chunk), item.chunk, item.tensor, i});
    }
    small_items_.visit_all([this](const SmallItems::Wanted& wanted, std::span<const std::byte> bytes) {
      take_small(wanted, bytes);
    });
  }

  void work_jointly(JointReads& joint, const std::atomic<bool>& stop) {
    try {
      take_turns(joint, stop);
    } catch (...) {
      joint.give_up();
      throw;
    }
    if (stop) joint.give_up();
  }

  void take_turns(JointReads& joint, const std::atomic<bool>& stop) {
    JointReads::Claim claim;
    std::optional<Backoff> wait;
    while (!stop && !joint.is_lost() && !joint.is_finished(claim)) {
      if (const auto part = joint.next_to_take()) {
        take_jointly(*part);
        joint.give_back(part->unit);
      } else if (const auto unit = joint.next_to_read(claim)) {
        read_jointly(*unit);
        joint.publish(*unit);
      } else {
        if (!wait) wait.emplace(for_transfers);
        wait->pause();
        continue;
      }
      wait.reset();
    }
  }

  const StorageCheck& check() const { return check_; }

 private:
  // A part of an item: what it has in the wanted box, where that begins in the file, and how it goes on
  // there.
  struct Part {
    TensorView view;
    std::uint64_t from_byte;
    bool is_run;  // in the file
  };

  Part part_of(const ReadItem& item, const ChunkPlace& place, const Box* piece) const {
    Box from = run_.plan_.in_chunk(catalog_, item), to = run_.plan_.in_wanted(catalog_, run_.wanted_, item);
    if (piece != nullptr) {
      for (std::size_t d = 0; d < from.offsets.size(); ++d) {
        from.offsets[d] += piece->offsets[d];
        to.offsets[d] += piece->offsets[d];
      }
      to.sizes = piece->sizes;
    }
    return {run_.views_(item.entry, item.box).part(to.offsets, to.sizes),
            place.first_byte + distance(from.offsets, place.strides, catalog_.tensors()[item.tensor].dtype),
            is_row_major(to.sizes, place.strides)};
  }

  // In bytes from element [0, …, 0].
  static std::uint64_t distance(std::span<const std::int64_t> offsets, std::span<const std::int64_t> strides,
                                DType dtype) {
    std::int64_t elements = 0;
    for (std::size_t d = 0; d < offsets.size(); ++d) elements += offsets[d] * strides[d];
    return static_cast<std::uint64_t>(elements) * element_size(dtype);
  }

  void read_piece(const ReadItem& item, std::uint64_t index) {
    const TensorInfo& tensor = catalog_.tensors()[item.tensor];
    const auto place = source_.locate(tensor, item.chunk);
    const Box piece = run_.pieces_of(item).piece(index);
    const Part part = part_of(item, *place, &piece);
    with_name(tensor, [&] { read(item, tensor, *place, part); });
    if (run_.options_.verify && index == 0 && !place->row_major && is_whole(item, *place))
      compare_at_once(tensor, item.chunk, *place);
    run_.arrived(item);
  }

  void read(const ReadItem& item, const TensorInfo& tensor, const ChunkPlace& place, const Part& part) {
    const TensorView& view = part.view;
    const std::uint64_t element_bytes = element_size(tensor.dtype);
    const bool as_it_is = view.device == nullptr && view.dtype == tensor.dtype;
    if (!part.is_run && as_it_is) {
      return reader_.read(place, part.from_byte, dims(view.sizes, place.strides, view.strides), view.data,
                          element_bytes);
    }
    const std::uint64_t bytes = static_cast<std::uint64_t>(element_count(view.sizes)) * element_bytes;
    const bool straight = as_it_is && view.is_contiguous();
    const std::span<std::byte> into = straight ? std::span(view.data, bytes) : staging(bytes);
    const auto strides = contiguous_strides(view.sizes);
    if (part.is_run) {
      read_run(item.chunk, place, part.from_byte, into);
    } else {
      reader_.read(place, part.from_byte, dims(view.sizes, place.strides, strides), into.data(),
                   element_bytes);
    }
    if (!straight) writer_.put(view, into.data(), strides, tensor.dtype);
  }

  // In steps that are still in the core's cache when their CRC is taken.
  void read_run(std::uint64_t chunk, const ChunkPlace& place, std::uint64_t from_byte,
                std::span<std::byte> into) {
    const bool verifies = run_.options_.verify && place.storage_crc != 0 && place.row_major;
    if (!verifies) return source_.read(place.file, from_byte, into);
    std::uint32_t crc = 0;
    for (std::size_t at = 0; at < into.size(); at += kCrcStepBytes) {
      const auto step = into.subspan(at, std::min(kCrcStepBytes, into.size() - at));
      source_.read(place.file, from_byte + at, step);
      crc = crc32(step, crc);
    }
    check_.add(chunk, place, from_byte - place.storage_begin, into.size(), crc);
  }

  // Whether reading the chunk's elements is reading all of its storage, which has a CRC.
  bool is_comparable(const TensorInfo& tensor, std::uint64_t chunk, const ChunkPlace& place) const {
    const BoxView stored = catalog_.box(tensor, catalog_.chunks()[chunk]);
    return run_.options_.verify && place.storage_crc != 0 &&
           place.storage_bytes ==
               static_cast<std::uint64_t>(element_count(stored.sizes)) * element_size(tensor.dtype);
  }

  bool is_whole(const ReadItem& item, const ChunkPlace& place) const {
    const TensorInfo& tensor = catalog_.tensors()[item.tensor];
    const BoxView stored = catalog_.box(tensor, catalog_.chunks()[item.chunk]);
    return std::ranges::equal(run_.plan_.overlap(catalog_, item).sizes, stored.sizes) &&
           is_comparable(tensor, item.chunk, place);
  }

  // Its elements come in another order than its bytes: these are read once more.
  void compare_at_once(const TensorInfo& tensor, std::uint64_t chunk, const ChunkPlace& place) {
    std::uint32_t crc = 0;
    for (std::uint64_t at = 0; at < place.storage_bytes;) {
      const auto next =
          std::span(scratch_).first(std::min<std::uint64_t>(scratch_.size(), place.storage_bytes - at));
      source_.read(place.file, place.storage_begin + at, next);
      crc = crc32(next, crc);
      at += next.size();
    }
    compare_storage(catalog_, tensor, chunk, place, crc);
    check_.add_verified(place.storage_bytes);
  }

  void take_small(const SmallItems::Wanted& wanted, std::span<const std::byte> bytes) {
    const ReadItem& item = run_.items_[wanted.part];
    const TensorInfo& tensor = catalog_.tensors()[wanted.tensor];
    const ChunkPlace& place = locator_->locate(tensor, wanted.chunk, bytes);
    const auto at = [&](std::uint64_t byte_offset) {
      return bytes.data() + (byte_offset - wanted.item.begin);
    };
    if (wanted.chunk != last_compared_ && is_comparable(tensor, wanted.chunk, place)) {
      compare_storage(catalog_, tensor, wanted.chunk, place,
                      crc32({at(place.storage_begin), place.storage_bytes}));
      check_.add_verified(place.storage_bytes);
      last_compared_ = wanted.chunk;
    }
    const Part part = part_of(item, place, nullptr);
    writer_.put(part.view, at(part.from_byte), place.strides, tensor.dtype);
    run_.arrived(item);
  }

  // --- together with other ranks
  void read_jointly(const JointReads::Unit& unit) {
    const TensorInfo& tensor = catalog_.tensors()[unit.chunk->tensor];
    with_name(tensor, [&] {
      const auto place = source_.locate(tensor, unit.chunk->chunk);
      const std::uint64_t element_bytes = element_size(tensor.dtype);
      const std::uint64_t from_byte =
          place->first_byte + distance(unit.piece.offsets, place->strides, tensor.dtype);
      const auto& sizes = unit.piece.sizes;
      if (is_row_major(sizes, place->strides)) {
        const auto into = unit.memory.first(static_cast<std::uint64_t>(element_count(sizes)) * element_bytes);
        read_run(unit.chunk->chunk, *place, from_byte, into);
      } else {
        reader_.read(*place, from_byte, dims(sizes, place->strides, contiguous_strides(sizes)),
                     unit.memory.data(), element_bytes);
      }
    });
  }

  void take_jointly(const JointReads::Taken& taken) {
    const ReadItem& item = run_.items_[taken.part->item];
    const TensorInfo& tensor = catalog_.tensors()[item.tensor];
    const Box& piece = taken.unit.piece;
    std::vector<std::int64_t> from = taken.box.offsets;
    std::vector<std::int64_t> to = run_.plan_.in_wanted(catalog_, run_.wanted_, item).offsets;
    for (std::size_t d = 0; d < from.size(); ++d) {
      from[d] -= piece.offsets[d];
      to[d] += taken.box.offsets[d] - taken.part->box.offsets[d];
    }
    const auto strides = contiguous_strides(piece.sizes);
    with_name(tensor, [&] {
      writer_.put(run_.views_(item.entry, item.box).part(to, taken.box.sizes),
                  taken.unit.memory.data() + distance(from, strides, tensor.dtype), strides, tensor.dtype);
    });
    run_.arrived(item);
  }

  template <class Body>
  void with_name(const TensorInfo& tensor, const Body& body) {
    with_context([&] { return fmt::format("'{}'", escape_name(catalog_.name(tensor))); }, body);
  }

  static std::vector<CopyDim> dims(std::span<const std::int64_t> sizes, std::span<const std::int64_t> from,
                                   std::span<const std::int64_t> to) {
    std::vector<CopyDim> out;
    for (std::size_t d = 0; d < sizes.size(); ++d) out.push_back({sizes[d], from[d], to[d]});
    return out;
  }

  std::span<std::byte> staging(std::uint64_t bytes) {
    staging_.resize(std::max<std::size_t>(staging_.size(), bytes));
    return std::span(staging_).first(bytes);
  }

  LoadRun& run_;
  Source& source_;
  const Catalog& catalog_;
  std::vector<std::byte> scratch_, staging_;
  BoxReader reader_;
  SmallItems small_items_;
  std::unique_ptr<ItemLocator> locator_;
  ViewWriter writer_;
  StorageCheck check_;
  std::uint64_t last_compared_ = ~std::uint64_t{0};
};

void LoadRun::work(const std::atomic<bool>& stop) {
  Thread thread(*this);
  if (options_.joint != nullptr) thread.work_jointly(*options_.joint, stop);
  const auto is_lost = [this] { return options_.joint != nullptr && options_.joint->is_lost(); };
  while (!stop && !is_lost()) {
    const std::size_t unit = next_.fetch_add(1);
    if (unit >= units_.size()) break;
    thread.take(units_[unit]);
  }
  const std::lock_guard lock(mutex_);
  check_.add(thread.check());
}

}  // namespace cairn
