// SPDX-License-Identifier: BSD-3-Clause
#include "engine/window_filler.hpp"

#include <algorithm>
#include <cstring>

#include "base/crc32.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "engine/storage_crc.hpp"

namespace cairn {
namespace {

constexpr std::size_t kRecentIndices = 16;
constexpr std::uint64_t kFewChunks = 8;  // are looked at one by one

std::span<std::byte> piece(std::span<std::byte> buffer, ByteRange window, ByteRange range) {
  return buffer.subspan(range.begin - window.begin, range.size());
}

}  // namespace

std::shared_ptr<const ChunkIndex> ChunkIndices::of(std::uint32_t tensor) {
  const std::lock_guard lock(mutex_);  // held while building: the others need the same index
  if (const auto found = recent_.find(tensor); found != recent_.end()) return found->second;
  const TensorInfo& row = catalog_.tensors()[tensor];
  const auto chunks = catalog_.chunks(row);
  const auto box_at = [this, &row, chunks](std::size_t i) { return catalog_.box(row, chunks[i]); };
  if (recent_.size() >= kRecentIndices) recent_.clear();
  return recent_[tensor] = std::make_shared<const ChunkIndex>(catalog_.shape(row), chunks.size(), box_at);
}

void PassedBytes::add(const PassedBytes& more) {
  written.insert(written.end(), more.written.begin(), more.written.end());
  read.insert(read.end(), more.read.begin(), more.read.end());
  verified_bytes += more.verified_bytes;
}

void WindowFiller::Part::add_run(std::uint64_t at, std::uint64_t bytes, std::uint32_t crc) {
  if (run_bytes != at) broken = true;
  run_crc = run_bytes == 0 ? crc : crc32_combine(run_crc, crc, bytes);
  run_bytes += bytes;
}

std::uint32_t WindowFiller::Part::crc() const {
  return !broken && run_bytes == into.size() ? run_crc : crc32(into);
}

WindowFiller::WindowFiller(Source& source, const OutputLayout& layout,
                           std::span<const RecordContent> contents, ChunkIndices& indices,
                           std::span<std::byte> scratch, bool verify_source)
    : source_(source),
      layout_(layout),
      contents_(contents),
      indices_(indices),
      scratch_(scratch),
      verify_source_(verify_source),
      reader_(source, scratch),
      small_items_(source, scratch),
      locator_(source.item_locator()) {}

void WindowFiller::fill(ByteRange window, std::span<std::byte> buffer, PassedBytes& passed) {
  passed_ = &passed;
  parts_.clear();
  for (std::uint64_t record = layout_.record_at(window.begin); record < layout_.record_count(); ++record) {
    if (layout_.extent(record).begin >= window.end) break;
    open_part(record, window, buffer);
    fill_front(parts_.back(), window, buffer);
    fill_payload(static_cast<std::uint32_t>(parts_.size() - 1));
  }
  small_items_.visit_all([this](const SmallItems::Wanted& wanted, std::span<const std::byte> item) {
    copy_small_chunk(wanted, item);
  });
  for (const Part& part : parts_) finish(part, window, buffer);
}

// --- records ----------------------------------------------------------------------------------------------

void WindowFiller::open_part(std::uint64_t record, ByteRange window, std::span<std::byte> buffer) {
  const ByteRange payload = layout_.payload(record), here = clip(payload, window);
  parts_.push_back({record, layout_.extent(record), payload, here, piece(buffer, window, here)});
}

void WindowFiller::fill_front(const Part& part, ByteRange window, std::span<std::byte> buffer) {
  const ByteRange front{part.extent.begin, part.payload.begin};
  const ByteRange here = clip(front, window);
  if (here.size() == 0) return;
  if (here.size() == front.size()) return layout_.write_front(part.record, piece(buffer, window, here));
  std::vector<std::byte> whole(front.size());
  layout_.write_front(part.record, whole);
  std::memcpy(piece(buffer, window, here).data(), whole.data() + (here.begin - front.begin), here.size());
}

void WindowFiller::fill_payload(std::uint32_t index) {
  const Part& part = parts_[index];
  if (part.into.empty()) return;
  const RecordContent& content = contents_[part.record];
  if (content.is_tensor) return fill_tensor(index, source_.catalog().tensors()[content.tensor]);
  source_.read(content.file, content.byte_offset + (part.here.begin - part.payload.begin), part.into);
}

void WindowFiller::finish(const Part& part, ByteRange window, std::span<std::byte> buffer) {
  const std::uint32_t crc = part.into.empty() ? 0 : part.crc();
  if (!part.into.empty()) {
    passed_->written.push_back({part.record, part.here.begin - part.payload.begin, part.here.size(), crc});
  }
  const ByteRange back = clip({part.payload.end, part.extent.end}, window);
  if (back.size() == 0) return;
  const bool whole_record = part.extent.begin >= window.begin && part.extent.end <= window.end;
  if (whole_record)
    layout_.write_back(part.record, crc, piece(buffer, window, back));
  else
    std::ranges::fill(piece(buffer, window, back), std::byte{0});
}

// --- tensors ----------------------------------------------------------------------------------------------

BoxView WindowFiller::whole(std::span<const std::int64_t> shape) {
  if (origin_.size() < shape.size()) origin_.resize(shape.size(), 0);
  return {std::span(origin_).first(shape.size()), shape};
}

ElementRun WindowFiller::run_of(const Part& part, const TensorInfo& tensor) {
  const std::uint64_t element_bytes = element_size(tensor.dtype);
  const auto first = static_cast<std::int64_t>((part.here.begin - part.payload.begin) / element_bytes);
  const auto count = static_cast<std::int64_t>(part.into.size() / element_bytes);
  const RecordContent& content = contents_[part.record];
  const BoxView box = content.is_part ? content.box : whole(source_.catalog().shape(tensor));
  return {box, element_bytes, first, first + count, part.into.data()};
}

void WindowFiller::fill_tensor(std::uint32_t index, const TensorInfo& tensor) {
  Part& part = parts_[index];
  const std::uint32_t tensor_index = contents_[part.record].tensor;
  const Catalog& catalog = source_.catalog();
  const ElementRun run = run_of(part, tensor);
  const auto copy = [&](std::uint64_t chunk, BoxView wanted) {
    if (const auto item = source_.small_item(chunk))
      small_items_.want({*item, chunk, tensor_index, index});
    else
      copy_large_chunk(part, tensor, chunk, wanted);
  };
  const auto many = tensor.chunk_count > kFewChunks ? indices_.of(tensor_index) : nullptr;
  run.for_each_box([&](BoxView wanted) {
    if (many) {
      return many->for_each_overlap(wanted, [&](std::size_t i) { copy(tensor.first_chunk + i, wanted); });
    }
    for (std::uint64_t i = 0; i < tensor.chunk_count; ++i) {
      const std::uint64_t chunk = tensor.first_chunk + i;
      if (overlaps(catalog.box(tensor, catalog.chunks()[chunk]), wanted)) copy(chunk, wanted);
    }
  });
}

// Whether one reading of the chunk's elements is a reading of the whole storage, which has a CRC.
bool WindowFiller::is_comparable(const ChunkPlace& place, BoxView stored, std::uint64_t element_bytes) const {
  return verify_source_ && place.storage_crc != 0 &&
         place.storage_bytes == static_cast<std::uint64_t>(element_count(stored.sizes)) * element_bytes;
}

// --- large chunks: read where they are needed --------------------------------------------------------------

void WindowFiller::copy_large_chunk(Part& part, const TensorInfo& tensor, std::uint64_t chunk,
                                    BoxView wanted) {
  const Catalog& catalog = source_.catalog();
  const BoxView stored = catalog.box(tensor, catalog.chunks()[chunk]);
  const auto place = source_.locate(tensor, chunk);
  const ElementRun run = run_of(part, tensor);
  share(run, wanted, stored, *place, shared_);
  const bool in_runs = place->row_major && reads_in_runs(run.box, catalog.shape(tensor), stored);
  with_context([&] { return fmt::format("'{}'", escape_name(catalog.name(tensor))); },
               [&] {
                 if (in_runs) return copy_row_major(part, *place, chunk, run);
                 part.broken = true;
                 reader_.read(*place, shared_.from_byte, shared_.dims, run.into + shared_.to_byte,
                              run.element_bytes);
               });
  // one of the windows that hold parts of the chunk compares it, the one with its first element
  if (!in_runs && shared_.has_first && is_comparable(*place, stored, run.element_bytes))
    compare_at_once(tensor, chunk, *place);
}

// A box that a run of the output shares with a row-major chunk is one run of the chunk's storage, at most as
// long as the window.
void WindowFiller::copy_row_major(Part& part, const ChunkPlace& place, std::uint64_t chunk,
                                  const ElementRun& run) {
  const std::uint64_t bytes = shared_.element_count() * run.element_bytes;
  std::byte* into = run.into + shared_.to_byte;
  const bool straight = shared_.is_run();
  const std::span<std::byte> target = straight ? std::span(into, bytes) : scratch_.first(bytes);
  source_.read(place.file, shared_.from_byte, target);
  if (!straight) strided_copy(into, target.data(), shared_.dims, run.element_bytes);
  if (!verify_source_ || place.storage_crc == 0) {
    part.broken = true;
    return;
  }
  const std::uint32_t crc = crc32(target);
  passed_->read.push_back({chunk, shared_.from_byte - place.storage_begin, bytes, crc});
  if (straight)
    part.add_run(shared_.to_byte, bytes, crc);
  else
    part.broken = true;
}

void WindowFiller::compare_at_once(const TensorInfo& tensor, std::uint64_t chunk, const ChunkPlace& place) {
  std::uint32_t crc = 0;
  for (std::uint64_t at = 0; at < place.storage_bytes;) {
    const auto next = scratch_.first(std::min<std::uint64_t>(scratch_.size(), place.storage_bytes - at));
    source_.read(place.file, place.storage_begin + at, next);
    crc = crc32(next, crc);
    at += next.size();
  }
  compare_storage(source_.catalog(), tensor, chunk, place, crc);
  passed_->verified_bytes += place.storage_bytes;
}

// --- small chunks: their items are in memory
// -----------------------------------------------------------------

void WindowFiller::copy_small_chunk(const SmallItems::Wanted& wanted, std::span<const std::byte> item) {
  const Catalog& catalog = source_.catalog();
  const TensorInfo& tensor = catalog.tensors()[wanted.tensor];
  const BoxView stored = catalog.box(tensor, catalog.chunks()[wanted.chunk]);
  const ChunkPlace& place = locator_->locate(tensor, wanted.chunk, item);
  Part& part = parts_[wanted.part];
  const ElementRun run = run_of(part, tensor);
  const auto at = [&](std::uint64_t byte_offset) { return item.data() + (byte_offset - wanted.item.begin); };

  const bool is_all =
      std::ranges::equal(stored.sizes, run.box.sizes) && std::ranges::equal(stored.offsets, run.box.offsets);
  bool has_first = false;
  if (is_all && place.row_major) {
    const auto skipped = static_cast<std::uint64_t>(run.first) * run.element_bytes;
    std::memcpy(run.into, at(place.first_byte + skipped), run.bytes());
    has_first = run.first == 0;
  } else {
    run.for_each_box([&](BoxView box) {
      if (!share(run, box, stored, place, shared_)) return;
      strided_copy(run.into + shared_.to_byte, at(shared_.from_byte), shared_.dims, run.element_bytes);
      has_first = has_first || shared_.has_first;
    });
    part.broken = true;
  }
  if (!has_first || !is_comparable(place, stored, run.element_bytes)) return;
  const std::uint32_t crc = crc32({at(place.storage_begin), place.storage_bytes});
  compare_storage(catalog, tensor, wanted.chunk, place, crc);
  passed_->verified_bytes += place.storage_bytes;
  if (!part.broken && run.bytes() == place.storage_bytes) part.add_run(0, run.bytes(), crc);
}

}  // namespace cairn
