// SPDX-License-Identifier: BSD-3-Clause
// The directory of a torch.save archive, made ready for going through its bytes in order. Local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zip/directory.hpp"

namespace cairn::torch_file {

/// Names point into memory that outlives the index, or into its own. All byte offsets count from the
/// archive's start.
class ArchiveIndex {
 public:
  /// Each reads an archive of `size` bytes; the second has it in memory. Memory of an earlier use is used
  /// again. Throw corrupt or unsupported where there is no directory to go by.
  void read(const zip::ReadAt& read_at, std::uint64_t size);
  void read(std::span<const std::byte> archive);

  const zip::Directory& directory() const { return directory_; }
  std::uint64_t size() const { return size_; }
  /// What the record .storage_alignment says; 1 without one.
  std::uint64_t alignment() const { return alignment_; }

  std::size_t record_count() const { return directory_.entries.size(); }
  /// By place in the archive.
  const zip::Entry& record(std::size_t i) const { return directory_.entries[order_.empty() ? i : order_[i]]; }
  /// Where the record after this one begins, or the directory.
  std::uint64_t end_of(std::size_t i) const;
  /// The first record that reaches beyond this byte.
  std::size_t first_beyond(std::uint64_t byte_offset) const;

  /// By name without the archive's; nullptr where there is none.
  const zip::Entry* find(std::string_view name) const;
  /// Whether a record with bytes has no CRC-32 (0: torch was told to compute none).
  bool has_unchecked() const;

 private:
  void prepare(const zip::ReadAt& read_at);
  void read_alignment(const zip::ReadAt& read_at);

  zip::Directory directory_;
  std::vector<std::uint32_t> order_;  // empty where the directory is in order
  std::string prefix_;                // "archive/"
  std::uint64_t size_ = 0, alignment_ = 1;
};

}  // namespace cairn::torch_file
