// SPDX-License-Identifier: BSD-3-Clause
// Composes one window of an output in memory: fronts, payloads, backs. Local; one object per thread.
//
// Large chunks are copied while the records are gone through; small ones after that, all of the window in the
// order of their files, so that neighbours are read together. The records' CRCs come last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/box_reader.hpp"
#include "engine/crc_pieces.hpp"
#include "engine/shared_box.hpp"
#include "engine/small_items.hpp"
#include "formats/output_layout.hpp"
#include "formats/record_content.hpp"
#include "formats/source.hpp"
#include "plan/chunk_grid.hpp"

namespace cairn {

/// The chunk indices of tensors with many chunks, made once and shared by threads.
class ChunkIndices {
 public:
  explicit ChunkIndices(const Catalog& catalog) : catalog_(catalog) {}
  std::shared_ptr<const ChunkIndex> of(std::uint32_t tensor);

 private:
  const Catalog& catalog_;
  std::mutex mutex_;
  std::unordered_map<std::uint32_t, std::shared_ptr<const ChunkIndex>> recent_;
};

/// CRCs found on the way.
struct PassedBytes {
  void add(const PassedBytes& more);

  std::vector<CrcPiece> written;  ///< of the output's records
  std::vector<CrcPiece> read;  ///< of chunks' storages; together they cover storages that are compared later
  std::uint64_t verified_bytes = 0;  ///< of storages compared already
};

class WindowFiller {
 public:
  /// All arguments outlive the filler. `contents[r]` is the payload of the layout's record r. With
  /// `verify_source` the storages of the chunks that are read are compared with their CRCs where they have
  /// one: at once when an item is small or not row-major, else through the pieces in PassedBytes::read.
  /// `scratch` is as long as the longest window.
  WindowFiller(Source& source, const OutputLayout& layout, std::span<const RecordContent> contents,
               ChunkIndices& indices, std::span<std::byte> scratch, bool verify_source);

  /// Fills `buffer` with the bytes of `window`; backs of records that reach beyond it are zeros. Throws
  /// corrupt when a storage compared at once has another CRC.
  void fill(ByteRange window, std::span<std::byte> buffer, PassedBytes& passed);

 private:
  // What the window holds of a record's payload. Its CRC is put together from the runs that filled it in
  // order; broken when they did not.
  struct Part {
    std::uint64_t record;
    ByteRange extent, payload;  // of the whole record
    ByteRange here;             // of the payload
    std::span<std::byte> into;
    std::uint64_t run_bytes = 0;
    std::uint32_t run_crc = 0;
    bool broken = false;

    void add_run(std::uint64_t at, std::uint64_t bytes, std::uint32_t crc);
    std::uint32_t crc() const;
  };

  void open_part(std::uint64_t record, ByteRange window, std::span<std::byte> buffer);
  void fill_front(const Part& part, ByteRange window, std::span<std::byte> buffer);
  void fill_payload(std::uint32_t part);
  void fill_tensor(std::uint32_t part, const TensorInfo& tensor);
  void finish(const Part& part, ByteRange window, std::span<std::byte> buffer);
  ElementRun run_of(const Part& part, const TensorInfo& tensor);
  BoxView whole(std::span<const std::int64_t> shape);

  void copy_large_chunk(Part& part, const TensorInfo& tensor, std::uint64_t chunk, BoxView wanted);
  void copy_row_major(Part& part, const ChunkPlace& place, std::uint64_t chunk, const ElementRun& run);
  void compare_at_once(const TensorInfo& tensor, std::uint64_t chunk, const ChunkPlace& place);

  void copy_small_chunk(const SmallItems::Wanted& wanted, std::span<const std::byte> item);

  bool is_comparable(const ChunkPlace& place, BoxView stored, std::uint64_t element_bytes) const;

  Source& source_;
  const OutputLayout& layout_;
  std::span<const RecordContent> contents_;
  ChunkIndices& indices_;
  std::span<std::byte> scratch_;
  bool verify_source_;
  BoxReader reader_;
  SmallItems small_items_;
  std::unique_ptr<ItemLocator> locator_;
  PassedBytes* passed_ = nullptr;  // during fill()
  std::vector<Part> parts_;        // of the window that is filled
  SharedBox shared_;
  std::vector<std::int64_t> origin_;  // zeros
};

}  // namespace cairn
