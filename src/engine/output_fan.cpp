// SPDX-License-Identifier: BSD-3-Clause
#include "engine/output_fan.hpp"

#include <algorithm>
#include <cstring>

#include "base/crc32.hpp"
#include "tensor/cast.hpp"

namespace cairn {
namespace {

constexpr std::uint64_t kWrittenThrough = 64 << 10;

/// Bytes of one output, put together until they no longer follow on each other.
class Stretch {
 public:
  explicit Stretch(File& file) : file_(file), buffer_(kFanBytes) {}

  /// Room for up to `bytes` bytes at `at`; as much as there is, at least `least`.
  std::span<std::byte> room(std::uint64_t at, std::uint64_t bytes, std::uint64_t least) {
    if (at != begin_ + size_ || buffer_.size() - size_ < std::min(bytes, least)) flush();
    if (size_ == 0) begin_ = at;
    return std::span(buffer_).subspan(size_, std::min<std::uint64_t>(bytes, buffer_.size() - size_));
  }
  void add(std::uint64_t bytes) { size_ += bytes; }
  /// Bytes that are not worth a copy.
  void write_through(std::uint64_t at, std::span<const std::byte> bytes) {
    flush();
    file_.write(at, bytes);
  }
  void flush() {
    if (size_ > 0) file_.write(begin_, std::span(buffer_).first(size_));
    size_ = 0;
  }

 private:
  File& file_;
  std::vector<std::byte> buffer_;
  std::uint64_t begin_ = 0, size_ = 0;
};

}  // namespace

class FanWriter final : public WindowWriter {
 public:
  FanWriter(const OutputFan& fan, std::span<const std::unique_ptr<File>> files) : fan_(fan) {
    for (const auto& file : files) stretches_.emplace_back(*file);
  }

  void write(ByteRange window, std::span<const std::byte> bytes, std::vector<CrcPiece>& written) override {
    const ContentSequence& sequence = fan_.sequence();
    const std::uint64_t first = sequence.record_at(window.begin);
    std::size_t piece = first_piece(written, first);
    for (std::uint64_t record = first; record < sequence.record_count(); ++record) {
      const ByteRange extent = sequence.extent(record);
      if (extent.begin >= window.end) break;
      const ByteRange whole = sequence.payload(record), here = clip(whole, window);
      const bool begins = extent.begin >= window.begin;
      if (here.size() == 0 && !begins) continue;  // only padding
      const Part part{fan_.contents()[record], here.begin - whole.begin, begins, here.end == whole.end,
                      bytes.subspan(here.begin - window.begin, here.size())};
      const std::uint32_t crc = here.size() == 0 ? 0 : written[piece++].crc;
      for (const auto& target : fan_.targets(record)) write_part(part, target, crc, written);
    }
    for (Stretch& stretch : stretches_) stretch.flush();
  }

 private:
  // What a window holds of a record's payload.
  struct Part {
    const RecordContent& source;
    std::uint64_t begin;
    bool begins, ends;
    std::span<const std::byte> bytes;
  };

  // The filler has added the pieces of this window last, one for each record that it holds bytes of.
  static std::size_t first_piece(const std::vector<CrcPiece>& written, std::uint64_t first_record) {
    std::size_t at = written.size();
    while (at > 0 && written[at - 1].of >= first_record &&
           (at == written.size() || written[at - 1].of < written[at].of)) {
      --at;
    }
    return at;
  }

  void write_part(const Part& part, const OutputFan::Target& target, std::uint32_t crc,
                  std::vector<CrcPiece>& written) {
    const auto& output = fan_.outputs_[target.output];
    const OutputLayout& layout = *output.layout;
    const RecordContent& content = output.contents[target.record];
    const ByteRange extent = layout.extent(target.record), payload = layout.payload(target.record);
    Stretch& stretch = stretches_[target.output];
    if (part.begins) {
      const auto front = stretch.room(extent.begin, payload.begin - extent.begin, kFanBytes);
      layout.write_front(target.record, front);
      stretch.add(front.size());
    }
    if (content.is_tensor && content.dtype != part.source.dtype) {
      crc = cast_into(stretch, part, content.dtype, payload.begin, target, written);
    } else {
      copy_into(stretch, payload.begin + part.begin, part.bytes);
    }
    if (!part.ends) return;
    const auto back = stretch.room(payload.end, extent.end - payload.end, kFanBytes);
    if (part.begins)
      layout.write_back(target.record, crc, back);
    else
      std::ranges::fill(back, std::byte{0});
    stretch.add(back.size());
  }

  static void copy_into(Stretch& stretch, std::uint64_t at, std::span<const std::byte> bytes) {
    if (bytes.size() >= kWrittenThrough) return stretch.write_through(at, bytes);
    while (!bytes.empty()) {
      const auto room = stretch.room(at, bytes.size(), 1);
      std::memcpy(room.data(), bytes.data(), room.size());
      stretch.add(room.size());
      at += room.size();
      bytes = bytes.subspan(room.size());
    }
  }

  static std::uint32_t cast_into(Stretch& stretch, const Part& part, DType to, std::uint64_t payload,
                                 const OutputFan::Target& target, std::vector<CrcPiece>& written) {
    const DType from = part.source.dtype;
    const std::uint64_t wide = element_size(from), element = element_size(to);
    const std::uint64_t count = part.bytes.size() / wide, begin = part.begin / wide * element;
    std::uint32_t crc = 0;
    for (std::uint64_t done = 0; done < count;) {
      const auto room = stretch.room(payload + begin + done * element, (count - done) * element, element);
      const std::uint64_t now = room.size() / element;
      const auto into = room.first(now * element);
      cast(into, to, part.bytes.subspan(done * wide, now * wide), from);
      crc = crc32(into, crc);
      stretch.add(into.size());
      done += now;
    }
    if (count > 0) written.push_back({target.crc, begin, count * element, crc});
    return crc;
  }

  const OutputFan& fan_;
  std::vector<Stretch> stretches_;
};

OutputFan::OutputFan(const Catalog& catalog, std::vector<Output> outputs)
    : catalog_(catalog), outputs_(std::move(outputs)), of_tensor_(catalog.tensors().size(), 0) {
  std::vector<std::vector<Target>> by_record;
  for (std::uint32_t o = 0; o < outputs_.size(); ++o) {
    for (std::uint64_t r = 0; r < outputs_[o].contents.size(); ++r) {
      const RecordContent& content = outputs_[o].contents[r];
      const std::uint64_t record = find_or_add(content);
      if (record == by_record.size()) by_record.emplace_back();
      by_record[record].push_back({o, r, record});
    }
  }
  for (const RecordContent& content : contents_) crc_bytes_.push_back(content.bytes);
  for (std::uint64_t record = 0; record < by_record.size(); ++record) {
    for (Target target : by_record[record]) {
      const RecordContent& content = outputs_[target.output].contents[target.record];
      if (content.is_tensor && content.dtype != contents_[record].dtype) {
        target.crc = crc_bytes_.size();
        crc_bytes_.push_back(content.bytes);
      }
      targets_.push_back(target);
    }
    target_ends_.push_back(targets_.size());
  }
  sequence_ = std::make_unique<ContentSequence>(contents_);
}

// Parts of tensors, and bytes inside an object, are one record for each output: they are few, and outputs may
// share their storages differently.
std::uint64_t OutputFan::find_or_add(const RecordContent& content) {
  const bool may_be_shared = content.is_tensor && !content.is_part;
  if (may_be_shared && of_tensor_[content.tensor] != 0) return of_tensor_[content.tensor] - 1;
  contents_.push_back(content);
  if (content.is_tensor) {
    const TensorInfo& tensor = catalog_.tensors()[content.tensor];
    contents_.back().dtype = tensor.dtype;
    contents_.back().bytes = content.bytes / element_size(content.dtype) * element_size(tensor.dtype);
    if (may_be_shared) of_tensor_[content.tensor] = contents_.size();
  }
  return contents_.size() - 1;
}

std::span<const OutputFan::Target> OutputFan::targets(std::uint64_t record) const {
  const std::uint64_t begin = record == 0 ? 0 : target_ends_[record - 1];
  return std::span(targets_).subspan(begin, target_ends_[record] - begin);
}

std::vector<std::uint32_t> OutputFan::crcs_of(std::size_t output, std::span<const std::uint32_t> all) const {
  std::vector<std::uint32_t> crcs(outputs_[output].contents.size());
  for (const Target& target : targets_) {
    if (target.output == output) crcs[target.record] = all[target.crc];
  }
  return crcs;
}

std::unique_ptr<WindowWriter> OutputFan::writer(std::span<const std::unique_ptr<File>> files) const {
  return std::make_unique<FanWriter>(*this, files);
}

}  // namespace cairn
