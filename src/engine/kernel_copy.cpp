// SPDX-License-Identifier: BSD-3-Clause
#include "engine/kernel_copy.hpp"

#include <algorithm>

namespace cairn {
namespace {

constexpr std::uint64_t kSmallestRecord = 1 << 20;
constexpr std::uint64_t kMostChunks = 4096;  // looked at once for each window of the record

/// A box is one run of the row-major tensor: below its first dimension of several elements it is whole.
bool is_run(BoxView box, std::span<const std::int64_t> shape) {
  bool cut = false;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (cut && box.sizes[d] != 1) return false;
    cut = cut || box.sizes[d] != shape[d];
  }
  return true;
}

}  // namespace

bool is_for_kernel(const RecordContent& content) {
  return content.is_tensor && content.bytes >= kSmallestRecord;
}

KernelCopier::KernelCopier(Source& source, const OutputLayout& layout,
                           std::span<const RecordContent> contents, File& output, std::span<std::byte> spare)
    : source_(source), layout_(layout), contents_(contents), output_(output), spare_(spare) {}

std::vector<ByteRange> KernelCopier::copy(ByteRange window, std::vector<CrcPiece>& written) {
  std::vector<ByteRange> left;
  std::uint64_t done = window.begin;
  for (std::uint64_t record = layout_.record_at(window.begin); record < layout_.record_count(); ++record) {
    if (layout_.extent(record).begin >= window.end) break;
    const ByteRange part = clip(layout_.payload(record), window);
    if (part.size() == 0 || !is_for_kernel(contents_[record]) || stretches(record).empty()) continue;
    copy_record(record, part, written);
    if (done < part.begin) left.push_back({done, part.begin});
    done = part.end;
  }
  if (done < window.end) left.push_back({done, window.end});
  return left;
}

const std::vector<KernelCopier::Stretch>& KernelCopier::stretches(std::uint64_t record) {
  if (record_ == record) return stretches_;
  record_ = record;
  stretches_.clear();
  const TensorInfo& tensor = source_.catalog().tensors()[contents_[record].tensor];
  if (tensor.chunk_count > kMostChunks) return stretches_;
  for (std::uint64_t i = 0; i < tensor.chunk_count; ++i) {
    const std::uint64_t chunk = tensor.first_chunk + i;
    const BoxView box = source_.catalog().box(tensor, source_.catalog().chunks()[chunk]);
    if (box.empty()) continue;
    const auto found = stretch(tensor, chunk);
    if (!found) {
      stretches_.clear();
      break;
    }
    stretches_.push_back(*found);
  }
  std::ranges::sort(stretches_, {}, &Stretch::at);
  return stretches_;
}

std::optional<KernelCopier::Stretch> KernelCopier::stretch(const TensorInfo& tensor, std::uint64_t chunk) {
  const Catalog& catalog = source_.catalog();
  const BoxView box = catalog.box(tensor, catalog.chunks()[chunk]);
  const auto shape = catalog.shape(tensor);
  if (!is_run(box, shape)) return {};
  const auto place = source_.locate(tensor, chunk);
  const auto element = element_size(tensor.dtype);
  const std::uint64_t bytes = static_cast<std::uint64_t>(element_count(box.sizes)) * element;
  if (!place->row_major || place->storage_bytes != bytes || place->storage_crc == 0) return {};
  const auto strides = contiguous_strides(shape);
  std::int64_t at = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) at += box.offsets[d] * strides[d];
  return Stretch{place->file, place->first_byte, static_cast<std::uint64_t>(at) * element, bytes,
                 place->storage_crc};
}

void KernelCopier::copy_record(std::uint64_t record, ByteRange part, std::vector<CrcPiece>& written) {
  const std::uint64_t payload = layout_.payload(record).begin;
  for (const Stretch& one : stretches_) {
    const ByteRange whole{payload + one.at, payload + one.at + one.bytes};
    const ByteRange here = clip(whole, part);
    if (here.size() == 0) continue;
    move(one, here.begin - whole.begin, here.size(), here.begin);
    if (here.begin == whole.begin) written.push_back({record, one.at, one.bytes, one.crc});
  }
}

void KernelCopier::move(const Stretch& from, std::uint64_t begin, std::uint64_t bytes, std::uint64_t to) {
  std::uint64_t done = source_.copy(from.file, from.from + begin, bytes, output_, to);
  while (done < bytes) {
    const auto piece = spare_.first(std::min<std::uint64_t>(bytes - done, spare_.size()));
    source_.read(from.file, from.from + begin + done, piece);
    output_.write(to + done, piece);
    done += piece.size();
  }
}

}  // namespace cairn
