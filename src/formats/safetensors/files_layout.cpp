// SPDX-License-Identifier: BSD-3-Clause
#include "formats/safetensors/files_layout.hpp"

#include <algorithm>

namespace cairn::safetensors {

FilesLayout::FilesLayout(std::span<const DataFile> files, std::span<const RecordContent> contents,
                         std::uint64_t alignment) {
  payloads_.reserve(contents.size());
  auto content = contents.begin();
  std::uint64_t at = 0;
  for (const DataFile& file : files) {
    at = (at + alignment - 1) / alignment * alignment + file.header_bytes % alignment;
    data_.push_back({at, at});
    for (std::uint64_t i = 0; i < file.records; ++i, ++content) {
      payloads_.push_back({at, at + content->bytes});
      data_.back().end = at += content->bytes;
    }
  }
}

ByteRange FilesLayout::region() const {
  if (payloads_.empty()) return {0, 0};
  return {payloads_.front().begin, payloads_.back().end};
}

ByteRange FilesLayout::extent(std::uint64_t record) const {
  const bool is_last = record + 1 == payloads_.size();
  return {payloads_[record].begin, is_last ? payloads_[record].end : payloads_[record + 1].begin};
}

void FilesLayout::write_back(std::uint64_t, std::uint32_t, std::span<std::byte> into) const {
  std::ranges::fill(into, std::byte{0});
}

}  // namespace cairn::safetensors
