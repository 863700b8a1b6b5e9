// SPDX-License-Identifier: BSD-3-Clause
// Payloads that lie in the source byte by byte as the output wants them, copied by the kernel: they never
// enter this process, so nothing is verified, and the CRCs of the output are those that the source states.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cairn/storage.hpp"
#include "engine/crc_pieces.hpp"
#include "formats/output_layout.hpp"
#include "formats/record_content.hpp"
#include "formats/source.hpp"

namespace cairn {

/// Whether a record is large enough for the kernel to copy, if its chunks allow it. The backs of such records
/// are written in the closing phase.
bool is_for_kernel(const RecordContent& content);

/// Local; one object per thread.
class KernelCopier {
 public:
  /// All arguments outlive the copier. `spare` is a buffer for what the kernel leaves.
  KernelCopier(Source& source, const OutputLayout& layout, std::span<const RecordContent> contents,
               File& output, std::span<std::byte> spare);

  /// Copies what can be copied of `window` and adds the CRCs of the chunks that begin in it to `written`.
  /// Returns the parts of the window that remain to be filled, in order.
  std::vector<ByteRange> copy(ByteRange window, std::vector<CrcPiece>& written);

 private:
  struct Stretch {  // a chunk: bytes of the source, and where they begin in the record's payload
    std::uint32_t file;
    std::uint64_t from, at, bytes;
    std::uint32_t crc;
  };
  /// Of a tensor whose chunks all are stretches, in the order of the payload; else empty.
  const std::vector<Stretch>& stretches(std::uint64_t record);
  std::optional<Stretch> stretch(const TensorInfo& tensor, std::uint64_t chunk);
  void copy_record(std::uint64_t record, ByteRange part, std::vector<CrcPiece>& written);
  void move(const Stretch& from, std::uint64_t begin, std::uint64_t bytes, std::uint64_t to);

  Source& source_;
  const OutputLayout& layout_;
  std::span<const RecordContent> contents_;
  File& output_;
  std::span<std::byte> spare_;
  std::optional<std::uint64_t> record_;  // whose stretches these are
  std::vector<Stretch> stretches_;
};

}  // namespace cairn
