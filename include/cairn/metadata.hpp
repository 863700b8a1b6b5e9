// SPDX-License-Identifier: BSD-3-Clause
// Row: plan. What a checkpoint holds: the catalogue of its tensors, objects and stored chunks. Local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/box.hpp"
#include "cairn/tensor.hpp"

namespace cairn {

/// A str object of the checkpoint. Two ids are equal when they were the same Python object; equal text under
/// two ids is normal. Torch's pickles depend on the difference.
using StringId = std::uint32_t;

/// One step of a nesting path: a dict key, or a position in a list.
struct PathStep {
  std::int64_t value;  ///< StringId of a key, or the position
  bool is_position;
};

struct TensorInfo {
  StringId name;
  DType dtype;
  std::uint32_t ndim;
  std::uint64_t shape_at;     ///< index into the coordinate pool
  std::uint64_t first_chunk;  ///< chunks of one tensor lie together
  std::uint64_t chunk_count;
};

/// What was done to an item's bytes before they were stored.
enum class Transform : std::uint8_t { none, zstd };

/// A stored piece of a tensor, or the stored bytes of an object (then without box).
struct StoredItem {
  std::uint64_t box_at;  ///< index into the coordinate pool: ndim offsets, then ndim sizes
  std::uint64_t byte_offset, byte_length;
  std::uint32_t
      file;  ///< index into files; kNoFile when the metadata names none (an empty chunk may have none)
  Transform transform = Transform::none;  ///< byte_length is that of what is stored
};
inline constexpr std::uint32_t kNoFile = 0xffffffff;

struct ObjectInfo {
  StringId name;
  StoredItem item;
};

struct Entry {
  std::uint32_t index;  ///< into tensors or objects
  bool is_tensor;
  bool has_path;  ///< false: the name itself is the only key
  std::uint32_t path_length;
  std::uint64_t path_at;  ///< index into the path steps
};

/// Flat arrays over one pool of coordinates; a million chunks fit. Entries are in the order of the metadata.
class Catalog {
 public:
  // --- looking --------------------------------------------------------------------------------------------
  std::span<const Entry> entries() const { return entries_; }
  std::span<const TensorInfo> tensors() const { return tensors_; }
  std::span<const ObjectInfo> objects() const { return objects_; }
  std::span<const StoredItem> chunks() const { return chunks_; }
  std::span<const StoredItem> chunks(const TensorInfo& tensor) const {
    return chunks().subspan(tensor.first_chunk, tensor.chunk_count);
  }
  std::span<const std::string> files() const { return files_; }

  std::string_view text(StringId id) const;
  std::size_t string_count() const { return string_ends_.size(); }
  std::string_view name(const TensorInfo& tensor) const { return text(tensor.name); }
  std::string_view name(const ObjectInfo& object) const { return text(object.name); }
  std::string_view name(const Entry& entry) const;
  std::span<const std::int64_t> shape(const TensorInfo& tensor) const;
  BoxView box(const TensorInfo& tensor, const StoredItem& chunk) const;
  /// Bytes of the whole tensor.
  std::uint64_t byte_count(const TensorInfo& tensor) const;
  std::span<const PathStep> path(const Entry& entry) const;

  // --- building: a tensor's chunks are added right after it -----------------------------------------------
  /// Room for so many tensors and objects with paths as they mostly are.
  void reserve_entries(std::size_t count);
  /// Room for so many chunks of so many dimensions.
  void reserve_chunks(std::size_t count, std::size_t ndim);
  StringId add_string(std::string_view text);
  std::uint32_t add_file(std::string path);
  TensorInfo& add_tensor(StringId name, DType dtype, std::span<const std::int64_t> shape);
  void add_chunk(BoxView box, std::uint32_t file, std::uint64_t byte_offset, std::uint64_t byte_length,
                 Transform transform = Transform::none);
  void add_object(StringId name, std::uint32_t file, std::uint64_t byte_offset, std::uint64_t byte_length,
                  Transform transform = Transform::none);
  /// Of the entry added last.
  void set_path(std::span<const PathStep> path);
  /// Where a chunk, or an object, has been stored: known only after the rest.
  void place_chunk(std::size_t chunk, std::uint32_t file, std::uint64_t byte_offset,
                   std::uint64_t byte_length);
  void place_object(std::size_t object, std::uint32_t file, std::uint64_t byte_offset,
                    std::uint64_t byte_length);

  /// Binary form for the wire, ids kept. decode() throws corrupt on anything encode() did not write.
  std::vector<std::byte> encode() const;
  static Catalog decode(std::span<const std::byte> bytes);

 private:
  std::vector<Entry> entries_;
  std::vector<TensorInfo> tensors_;
  std::vector<ObjectInfo> objects_;
  std::vector<StoredItem> chunks_;
  std::vector<std::int64_t> coordinates_;
  std::vector<PathStep> steps_;
  std::vector<char> characters_;
  std::vector<std::uint64_t> string_ends_;
  std::vector<std::string> files_;
};

enum class FaultKind : std::uint8_t {
  missing_file,
  short_file,
  out_of_bounds,
  overlap,
  hole,
  ndim,
  dtype,
  shape,
  crc,
  header,
  pickle,
  storage_data,
};
std::string_view to_string(FaultKind kind);

/// Something wrong with a checkpoint, as `cairn verify` reports it.
struct Fault {
  FaultKind kind;
  std::string name;  ///< tensor or object; empty for a file
  std::string file;
  std::uint64_t byte_offset = 0;
  std::string message;
};

/// Faults found so far. Beyond the limit they are counted, not kept.
class FaultList {
 public:
  explicit FaultList(std::size_t limit = 1000) : limit_(limit) {}
  void add(Fault fault);
  /// Whether more faults would only be counted: names may be long, and what says so longer.
  bool full() const { return faults_.size() >= limit_ || text_bytes_ >= kMaxText; }
  /// Counts faults that were not kept elsewhere.
  void add_unlisted(std::size_t count) { count_ += count; }
  bool empty() const { return count_ == 0; }
  std::size_t count() const { return count_; }
  std::span<const Fault> faults() const { return faults_; }
  /// Throws corrupt with the first few when there are any.
  void throw_if_any(std::string_view what) const;

 private:
  static constexpr std::size_t kMaxText = 4 << 20;

  std::size_t limit_, count_ = 0, text_bytes_ = 0;
  std::vector<Fault> faults_;
};

}  // namespace cairn
