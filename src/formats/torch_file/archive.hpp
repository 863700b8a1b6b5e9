// SPDX-License-Identifier: BSD-3-Clause
// A torch.save archive read by range: its directory, its pickle, its storages. Local.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "pickle/value.hpp"
#include "zip/directory.hpp"

namespace cairn::torch_file {

/// A stored record: its payload lies at byte_offset of the archive. crc 0 can mean "not computed".
struct Record {
  std::uint64_t byte_offset, size;
  std::uint32_t crc;
};

class Archive {
 public:
  /// Throws corrupt or unsupported (compressed records, big-endian data), naming `where`. `read_at` and
  /// `where` must outlive the archive.
  Archive(const zip::ReadAt& read_at, std::uint64_t size, std::string_view where);
  /// Of an archive in memory, which outlives this object: nothing is copied.
  Archive(std::span<const std::byte> bytes, std::string_view where);

  /// The pickle of the saved object, read into `arena`; its CRC is checked when there is one.
  pickle::Value read_pickle(pickle::Arena& arena) const;
  /// Its bytes, CRC checked; they are in `buffer` or in the archive.
  std::span<const std::byte> pickle_bytes(Bytes& buffer) const;

  const zip::Directory& directory() const { return directory_; }
  /// Whether it is a TorchScript module: code beside the data.
  bool is_script() const;

  /// The directory's entry of data/<key>. Throws corrupt when there is none or it has fewer bytes than
  /// `bytes`, unsupported when it is compressed.
  const zip::Entry& storage_entry(std::string_view key, std::uint64_t bytes) const;
  /// The record data/<key>, which must hold `bytes` bytes or more. Throws corrupt when absent or shorter.
  Record storage(std::string_view key, std::uint64_t bytes) const;

 private:
  void open();
  const zip::Entry* find(std::string_view folder, std::string_view name) const;
  const zip::Entry& entry(std::string_view folder, std::string_view name) const;
  std::uint64_t payload_offset(const zip::Entry& entry) const;
  std::span<const std::byte> read_small(const zip::Entry& entry, Bytes& buffer) const;
  void check_byte_order() const;

  const zip::ReadAt* read_at_ = nullptr;  // or none, and
  std::span<const std::byte> memory_;
  std::string_view where_;
  zip::Directory directory_;
  std::string prefix_;  // "archive/"
};

}  // namespace cairn::torch_file
