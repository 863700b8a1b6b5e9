// SPDX-License-Identifier: BSD-3-Clause
// The data of several safetensors files as one output: file after file, tensor after tensor. Pure.
//
// Headers are not part of it: they are known before any data is, and whoever makes the files writes them.
// Between the data of one file and that of the next are zeros, which belong to no file: windows, which are
// cut at multiples of the alignment, then begin at such multiples of the files too.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/output_layout.hpp"
#include "formats/record_content.hpp"

namespace cairn::safetensors {

/// A file that is written: its next `records` tensors with data, one after the other, behind its header.
struct DataFile {
  std::string path;
  std::uint64_t header_bytes = 0, records = 0;
};

class FilesLayout final : public OutputLayout {
 public:
  /// `contents` are the payloads of all records, none of them empty. `alignment` is a power of two.
  FilesLayout(std::span<const DataFile> files, std::span<const RecordContent> contents,
              std::uint64_t alignment);

  std::uint64_t record_count() const override { return payloads_.size(); }
  ByteRange region() const override;
  ByteRange extent(std::uint64_t record) const override;
  ByteRange payload(std::uint64_t record) const override { return payloads_[record]; }
  void write_front(std::uint64_t, std::span<std::byte>) const override {}
  void write_back(std::uint64_t record, std::uint32_t crc, std::span<std::byte> into) const override;

  /// Of each file, where its data lies in the region.
  std::span<const ByteRange> data() const { return data_; }

 private:
  std::vector<ByteRange> payloads_, data_;
};

}  // namespace cairn::safetensors
