// SPDX-License-Identifier: BSD-3-Clause
// A torch.save file as an output: data.pkl and three small records (head), data/0 … (region), version, the
// serialization id and the central directory (tail). docs/format-torch-file.md. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_writer.hpp"
#include "formats/output_layout.hpp"
#include "zip/torch_layout.hpp"

namespace cairn::torch_file {

class Layout : public OutputLayout {
 public:
  /// `archive_name` is the stem of the file's final name; `storage_bytes` the size of each data/<n>.
  /// `alignment`: see zip/torch_layout.hpp.
  Layout(std::string archive_name, std::uint64_t pickle_bytes, std::vector<std::uint64_t> storage_bytes,
         std::uint32_t alignment = 64);

  std::uint64_t record_count() const override { return sizes_.size(); }
  ByteRange region() const override { return {starts_.front(), starts_.back()}; }
  ByteRange extent(std::uint64_t record) const override { return {starts_[record], starts_[record + 1]}; }
  ByteRange payload(std::uint64_t record) const override;
  void write_front(std::uint64_t record, std::span<std::byte> into) const override;
  void write_back(std::uint64_t record, std::uint32_t crc, std::span<std::byte> into) const override;

  std::uint64_t file_size() const { return file_size_; }

  /// Bytes [0, region().begin).
  Bytes head(std::span<const std::byte> pickle) const;
  /// Bytes [region().end, file_size()) in pieces of about a megabyte, in order. `crcs[n]` is that of
  /// data/<n>.
  void write_tail(std::span<const std::byte> pickle, const std::vector<std::uint32_t>& crcs,
                  const std::function<void(std::span<const std::byte>)>& write) const;

 private:
  std::string full_name(std::string_view record) const { return archive_name_ + "/" + std::string(record); }
  zip::RecordPlace place(std::string_view record, std::uint64_t size, std::uint64_t at) const;
  // The full name of data/<record>, written into `name`.
  const std::string& storage_name(std::uint64_t record, std::string& name) const;
  std::size_t storage_name_length(std::uint64_t record) const;
  zip::RecordPlace storage_place(std::uint64_t record) const;

  std::string archive_name_, storage_prefix_;  // "archive", "archive/data/"
  std::uint64_t pickle_bytes_;
  std::vector<std::uint64_t> sizes_;
  std::vector<std::uint64_t> starts_;  // of each data record; then of the tail
  std::uint32_t alignment_;
  std::uint64_t file_size_;
};

}  // namespace cairn::torch_file
