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
#include "engine/record_pieces.hpp"
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

class WindowFiller {
 public:
  /// All arguments outlive the filler. `contents[r]` is the payload of the layout's record r.
  WindowFiller(Source& source, const OutputLayout& layout, std::span<const RecordContent> contents,
               ChunkIndices& indices, std::span<std::byte> scratch);

  /// Fills `buffer` with the bytes of `window`; backs of records that reach beyond it are zeros. Appends the
  /// CRC of each payload piece.
  void fill(ByteRange window, std::span<std::byte> buffer, std::vector<RecordPiece>& pieces);

 private:
  void fill_front(std::uint64_t record, ByteRange window, std::span<std::byte> buffer);
  void fill_back(std::uint64_t record, ByteRange window, std::span<std::byte> buffer, std::uint32_t crc);
  std::uint32_t fill_payload(std::uint64_t record, ByteRange window, std::span<std::byte> buffer,
                             std::vector<RecordPiece>& pieces);
  void fill_content(const RecordContent& content, std::uint64_t begin, std::span<std::byte> into);
  void fill_tensor(std::uint32_t tensor, std::uint64_t begin, std::span<std::byte> into);
  void copy_chunk(const TensorInfo& tensor, std::uint64_t chunk, BoxView wanted, std::int64_t first_element,
                  std::byte* into);

  Source& source_;
  const OutputLayout& layout_;
  std::span<const RecordContent> contents_;
  ChunkIndices& indices_;
  BoxReader reader_;
};

}  // namespace cairn
