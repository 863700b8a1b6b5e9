// SPDX-License-Identifier: BSD-3-Clause
// What there is to read when a checkpoint is verified, in the order of its bytes, cut into units of work. The
// same on every rank, whatever their number. Local, pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cairn/metadata.hpp"
#include "formats/layouts.hpp"
#include "formats/torch_file/archive_check.hpp"
#include "plan/windows.hpp"

namespace cairn {

/// What the manifest says of an item.
struct ManifestCrc {
  std::uint32_t file, crc;
  std::uint64_t byte_offset;
};

/// One checkpoint. For a torch file the catalogue holds that file alone.
struct VerifyTask {
  Located::Kind kind = Located::Kind::dcp;
  std::string path;
  Catalog catalog;
  std::vector<std::uint64_t> file_sizes;  ///< dcp::kNoSize: not to be read
  std::vector<ManifestCrc> manifest;      ///< by place; empty without a manifest

  std::string file_path(std::uint32_t file) const;

  Bytes encode() const;
  static VerifyTask decode(const Bytes& bytes);
};

struct VerifyItem {
  enum class Kind : std::uint8_t { chunk, object, torch_file } kind;
  bool is_alias;  ///< its bytes are those of the item before
  std::uint32_t file;
  std::uint64_t byte_offset, byte_length;
  std::uint64_t index;   ///< into chunks or objects
  std::uint64_t tensor;  ///< of a chunk
};

/// Items [begin, end) that are read together, all of one file, each small enough for the buffer; or a slice
/// of one item; or one compressed item, of any size.
struct VerifyUnit {
  std::uint64_t begin, end;
  ByteRange slice;      ///< of a single large item; {0, 0} for whole items
  std::uint64_t bytes;  ///< to read
};

class VerifyItems {
 public:
  /// Items up to this size are read whole.
  static constexpr std::uint64_t kSmallBytes = 256 << 10;

  /// `task` outlives this object. Items outside of their files are left out, and those that share a part
  /// of their bytes with another: the structure's faults name them.
  explicit VerifyItems(const VerifyTask& task);

  const VerifyTask& task() const { return task_; }
  const std::vector<VerifyItem>& items() const { return items_; }
  const std::vector<VerifyUnit>& units() const { return units_; }
  /// Units [begin, end) of that rank: contiguous, even by cost.
  ByteRange owned(int rank, int size) const;

  /// The CRC-32 of all its bytes by the manifest, if that names it.
  std::optional<std::uint32_t> manifest_crc(const VerifyItem& item) const;
  bool is_compressed(const VerifyItem& item) const;
  /// The tensor's or object's name; empty for a torch file.
  std::string_view name(const VerifyItem& item) const;
  /// The damage as a fault of the checkpoint: with name, box, file, and the byte in that file.
  Fault fault(const VerifyItem& item, const torch_file::Damage& damage) const;

  const std::vector<Fault>& faults() const { return faults_; }

 private:
  void collect();
  void add(VerifyItem item);
  bool is_empty_chunk(const VerifyItem& item) const;
  void drop_shared();
  void cut();
  std::string describe(const VerifyItem& item) const;

  const VerifyTask& task_;
  std::vector<VerifyItem> items_;
  std::vector<VerifyUnit> units_;
  std::vector<Fault> faults_;
};

}  // namespace cairn
