// SPDX-License-Identifier: BSD-3-Clause
#include "engine/window_filler.hpp"

#include <algorithm>
#include <cstring>

#include "base/crc32.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "plan/linear.hpp"

namespace cairn {
namespace {

constexpr std::size_t kRecentIndices = 16;

ByteRange clip(ByteRange range, ByteRange window) {
  const auto begin = std::clamp(range.begin, window.begin, window.end);
  return {begin, std::clamp(range.end, begin, window.end)};
}

std::span<std::byte> part(std::span<std::byte> buffer, ByteRange window, ByteRange range) {
  return buffer.subspan(range.begin - window.begin, range.size());
}

bool is_run(std::span<const CopyDim> dims) {
  std::int64_t expected = 1;
  for (std::size_t d = dims.size(); d-- > 0;) {
    if (dims[d].size != 1 && dims[d].target_stride != expected) return false;
    expected *= dims[d].size;
  }
  return true;
}

std::uint64_t element_total(std::span<const CopyDim> dims) {
  std::uint64_t count = 1;
  for (const CopyDim& dim : dims) count *= static_cast<std::uint64_t>(dim.size);
  return count;
}

std::int64_t dot(std::span<const std::int64_t> a, std::span<const std::int64_t> b) {
  std::int64_t sum = 0;
  for (std::size_t d = 0; d < a.size(); ++d) sum += a[d] * b[d];
  return sum;
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

WindowFiller::WindowFiller(Source& source, const OutputLayout& layout,
                           std::span<const RecordContent> contents, ChunkIndices& indices,
                           std::span<std::byte> scratch, bool verify_source)
    : source_(source),
      layout_(layout),
      contents_(contents),
      indices_(indices),
      scratch_(scratch),
      verify_source_(verify_source),
      reader_(source, scratch) {}

void WindowFiller::fill(ByteRange window, std::span<std::byte> buffer, PassedBytes& passed) {
  passed_ = &passed;
  for (std::uint64_t record = layout_.record_at(window.begin); record < layout_.record_count(); ++record) {
    if (layout_.extent(record).begin >= window.end) break;
    fill_front(record, window, buffer);
    const std::uint32_t crc = fill_payload(record, window, buffer);
    fill_back(record, window, buffer, crc);
  }
}

void WindowFiller::fill_front(std::uint64_t record, ByteRange window, std::span<std::byte> buffer) {
  const ByteRange front{layout_.extent(record).begin, layout_.payload(record).begin};
  const ByteRange here = clip(front, window);
  if (here.size() == 0) return;
  if (here.size() == front.size()) return layout_.write_front(record, part(buffer, window, here));
  std::vector<std::byte> whole(front.size());
  layout_.write_front(record, whole);
  std::memcpy(part(buffer, window, here).data(), whole.data() + (here.begin - front.begin), here.size());
}

void WindowFiller::fill_back(std::uint64_t record, ByteRange window, std::span<std::byte> buffer,
                             std::uint32_t crc) {
  const ByteRange extent = layout_.extent(record);
  const ByteRange back{layout_.payload(record).end, extent.end};
  const ByteRange here = clip(back, window);
  if (here.size() == 0) return;
  const bool whole_record = extent.begin >= window.begin && extent.end <= window.end;
  if (whole_record)
    layout_.write_back(record, crc, part(buffer, window, here));
  else
    std::ranges::fill(part(buffer, window, here), std::byte{0});
}

std::uint32_t WindowFiller::fill_payload(std::uint64_t record, ByteRange window,
                                         std::span<std::byte> buffer) {
  const ByteRange payload = layout_.payload(record);
  const ByteRange here = clip(payload, window);
  if (here.size() == 0) return 0;
  const auto into = part(buffer, window, here);
  run_ = {};
  fill_content(contents_[record], here.begin - payload.begin, into);
  const bool from_runs = !run_.broken && run_.bytes == into.size();
  const std::uint32_t crc = from_runs ? run_.crc : crc32(into);
  passed_->written.push_back({record, here.begin - payload.begin, here.size(), crc});
  return crc;
}

void WindowFiller::fill_content(const RecordContent& content, std::uint64_t begin,
                                std::span<std::byte> into) {
  if (content.is_tensor) return fill_tensor(content.tensor, begin, into);
  source_.read(content.file, content.byte_offset + begin, into);
}

void WindowFiller::fill_tensor(std::uint32_t index, std::uint64_t begin, std::span<std::byte> into) {
  const Catalog& catalog = source_.catalog();
  const TensorInfo& tensor = catalog.tensors()[index];
  const std::uint64_t element = element_size(tensor.dtype);
  const auto first = static_cast<std::int64_t>(begin / element);
  const auto last = static_cast<std::int64_t>((begin + into.size()) / element);
  const auto chunks = tensor.chunk_count > 1 ? indices_.of(index) : nullptr;
  for_each_box(catalog.shape(tensor), first, last, [&](BoxView wanted) {
    if (!chunks) return copy_chunk(tensor, tensor.first_chunk, wanted, first, into.data());
    chunks->for_each_overlap(wanted, [&](std::size_t i) {
      copy_chunk(tensor, tensor.first_chunk + i, wanted, first, into.data());
    });
  });
}

// `into` holds the tensor's elements from `first_element` on, row-major.
void WindowFiller::copy_chunk(const TensorInfo& tensor, std::uint64_t chunk, BoxView wanted,
                              std::int64_t first_element, std::byte* into) {
  const Catalog& catalog = source_.catalog();
  const BoxView stored = catalog.box(tensor, catalog.chunks()[chunk]);
  const auto place = source_.locate(tensor, chunk);
  const auto element = element_size(tensor.dtype);
  const auto target_strides = contiguous_strides(catalog.shape(tensor));
  Box shared;
  intersect(wanted, stored, shared);
  std::vector<CopyDim> dims(shared.sizes.size());
  std::int64_t source_first = 0;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    dims[d] = {shared.sizes[d], place->strides[d], target_strides[d]};
    source_first += (shared.offsets[d] - stored.offsets[d]) * place->strides[d];
  }
  const bool has_crc = verify_source_ && place->storage_crc != 0;
  const bool in_pieces = place->row_major && place->item.empty();
  const bool chunk_begins = std::ranges::equal(shared.offsets, stored.offsets);
  const auto target_byte =
      static_cast<std::uint64_t>(dot(shared.offsets, target_strides) - first_element) * element;
  const std::uint64_t byte_offset = place->first_byte + static_cast<std::uint64_t>(source_first) * element;
  with_context([&] { return fmt::format("'{}'", escape_name(catalog.name(tensor))); },
               [&] {
                 if (place->row_major) {
                   copy_row_major(*place, chunk, byte_offset, dims, into + target_byte, target_byte, element);
                 } else {
                   run_.broken = true;
                   reader_.read(*place, byte_offset, std::move(dims), into + target_byte, element);
                 }
               });
  // one of the windows that hold parts of the chunk compares it, the one with its first element
  const bool complete =
      place->storage_bytes == static_cast<std::uint64_t>(element_count(stored.sizes)) * element;
  if (has_crc && !in_pieces && chunk_begins && complete) compare_at_once(tensor, chunk, *place);
}

// A box that a run of the output shares with a row-major chunk is one run of the chunk's storage, at most as
// long as the window.
void WindowFiller::copy_row_major(const ChunkPlace& place, std::uint64_t chunk, std::uint64_t byte_offset,
                                  std::span<const CopyDim> dims, std::byte* into, std::uint64_t target_byte,
                                  std::uint64_t element) {
  const std::uint64_t bytes = element_total(dims) * element;
  const bool straight = is_run(dims);
  const std::span<std::byte> target = straight ? std::span(into, bytes) : scratch_.first(bytes);
  source_.read(place, byte_offset, target);
  if (!straight) strided_copy(into, target.data(), dims, element);
  const bool in_pieces = verify_source_ && place.storage_crc != 0 && place.item.empty();
  if (!in_pieces) {
    run_.broken = true;
    return;
  }
  const std::uint32_t crc = crc32(target);
  passed_->read.push_back({chunk, byte_offset - place.storage_begin, bytes, crc});
  if (straight)
    add_run(target_byte, bytes, crc);
  else
    run_.broken = true;
}

void WindowFiller::add_run(std::uint64_t target_byte, std::uint64_t bytes, std::uint32_t crc) {
  if (run_.bytes != target_byte) run_.broken = true;
  run_.crc = run_.bytes == 0 ? crc : crc32_combine(run_.crc, crc, bytes);
  run_.bytes += bytes;
}

}  // namespace cairn
