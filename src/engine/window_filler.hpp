// SPDX-License-Identifier: BSD-3-Clause
// Composes one window of an output in memory: fronts, payloads, backs. Local; one object per thread.
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
  std::vector<CrcPiece> written;  ///< of the output's records
  std::vector<CrcPiece> read;  ///< of chunks' storages; together they cover storages that are compared later
  std::uint64_t verified_bytes = 0;  ///< of storages compared already
};

class WindowFiller {
 public:
  /// All arguments outlive the filler. `contents[r]` is the payload of the layout's record r. With
  /// `verify_source` the storages of the chunks that are read are compared with their CRCs where they have
  /// one: at once when an item is small or not row-major, else through the pieces in PassedBytes::read.
  WindowFiller(Source& source, const OutputLayout& layout, std::span<const RecordContent> contents,
               ChunkIndices& indices, std::span<std::byte> scratch, bool verify_source);

  /// Fills `buffer` with the bytes of `window`; backs of records that reach beyond it are zeros. Throws
  /// corrupt when a storage compared at once has another CRC.
  void fill(ByteRange window, std::span<std::byte> buffer, PassedBytes& passed);

 private:
  // The CRC of a payload part put together from the runs that filled it in order; broken when they did not.
  struct RunCrc {
    std::uint64_t bytes = 0;
    std::uint32_t crc = 0;
    bool broken = false;
  };
  void fill_front(std::uint64_t record, ByteRange window, std::span<std::byte> buffer);
  void fill_back(std::uint64_t record, ByteRange window, std::span<std::byte> buffer, std::uint32_t crc);
  std::uint32_t fill_payload(std::uint64_t record, ByteRange window, std::span<std::byte> buffer);
  void fill_content(const RecordContent& content, std::uint64_t begin, std::span<std::byte> into);
  void fill_tensor(std::uint32_t tensor, std::uint64_t begin, std::span<std::byte> into);
  void copy_chunk(const TensorInfo& tensor, std::uint64_t chunk, BoxView wanted, std::int64_t first_element,
                  std::byte* into);
  void copy_row_major(const ChunkPlace& place, std::uint64_t chunk, std::uint64_t byte_offset,
                      std::span<const CopyDim> dims, std::byte* into, std::uint64_t target_byte,
                      std::uint64_t element);
  void add_run(std::uint64_t target_byte, std::uint64_t bytes, std::uint32_t crc);
  void compare_at_once(const TensorInfo& tensor, std::uint64_t chunk, const ChunkPlace& place);

  Source& source_;
  const OutputLayout& layout_;
  std::span<const RecordContent> contents_;
  ChunkIndices& indices_;
  std::span<std::byte> scratch_;
  bool verify_source_;
  BoxReader reader_;
  PassedBytes* passed_ = nullptr;  // during fill()
  RunCrc run_;
};

/// Joined pieces of storages: those that cover a whole storage are compared with its CRC and taken out,
/// `verified` counts their bytes; what is left belongs to storages that others read the rest of. Throws
/// corrupt, naming tensor, chunk, file and offset.
std::vector<CrcPiece> compare_storages(Source& source, std::vector<CrcPiece> pieces,
                                       std::uint64_t& verified_bytes);

}  // namespace cairn
