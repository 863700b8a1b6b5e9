// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/small_file.hpp"

#include <algorithm>
#include <cassert>

#include "base/crc32.hpp"

namespace cairn {
namespace {

constexpr std::uint64_t kPieceBytes = 1 << 20;

// Returns the CRC-32 of what was copied.
std::uint32_t copy_content(File& file, std::uint64_t at, const RecordContent& content, Source& source) {
  Bytes buffer(std::min(content.bytes, kPieceBytes));
  std::uint32_t crc = 0;
  for (std::uint64_t done = 0; done < content.bytes;) {
    const auto piece = std::span(buffer).first(std::min(content.bytes - done, kPieceBytes));
    source.read(content.file, content.byte_offset + done, piece);
    crc = crc32(piece, crc);
    file.write(at + done, piece);
    done += piece.size();
  }
  return crc;
}

}  // namespace

void write_small_file(File& file, const torch_file::Layout& layout, std::span<const std::byte> pickle,
                      const std::vector<RecordContent>& contents, Source& source) {
  file.write(0, layout.head(pickle));
  std::vector<std::uint32_t> crcs;
  for (std::uint64_t record = 0; record < contents.size(); ++record) {
    assert(!contents[record].is_tensor);
    const ByteRange extent = layout.extent(record), payload = layout.payload(record);
    Bytes front(payload.begin - extent.begin), back(extent.end - payload.end);
    layout.write_front(record, front);
    file.write(extent.begin, front);
    crcs.push_back(copy_content(file, payload.begin, contents[record], source));
    layout.write_back(record, crcs.back(), back);
    file.write(payload.end, back);
  }
  std::uint64_t at = layout.region().end;
  layout.write_tail(pickle, crcs, [&](std::span<const std::byte> bytes) {
    file.write(at, bytes);
    at += bytes.size();
  });
}

}  // namespace cairn
