// SPDX-License-Identifier: BSD-3-Clause
// One read, several outputs: each record of a sequence of contents goes into one or more outputs, with its
// bits kept or cast. Local.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cairn/metadata.hpp"
#include "cairn/storage.hpp"
#include "engine/content_sequence.hpp"
#include "engine/window_writer.hpp"
#include "formats/output_layout.hpp"
#include "formats/record_content.hpp"

namespace cairn {

class OutputFan {
 public:
  struct Output {
    const OutputLayout* layout;
    std::span<const RecordContent> contents;  ///< of its records; payloads are in the dtype written
  };
  /// Where a record of the sequence goes.
  struct Target {
    std::uint32_t output;
    std::uint64_t record;
    std::uint64_t crc;  ///< the number under which the CRC of its payload is found
  };

  /// All arguments outlive the fan. The sequence has the contents of the first output in its order, then what
  /// the second has beside that, and so on.
  OutputFan(const Catalog& catalog, std::vector<Output> outputs);

  const ContentSequence& sequence() const { return *sequence_; }
  /// As they are read: no casts.
  const std::vector<RecordContent>& contents() const { return contents_; }
  std::span<const Target> targets(std::uint64_t record) const;

  /// Sizes behind the numbers of CRC pieces: of the sequence's records, then of the payloads that are cast.
  const std::vector<std::uint64_t>& crc_bytes() const { return crc_bytes_; }
  /// The CRCs of an output's records, from those of all numbers.
  std::vector<std::uint32_t> crcs_of(std::size_t output, std::span<const std::uint32_t> all) const;

  /// Writes windows of the sequence into `files`, one an output. Backs are written with records that a window
  /// holds whole, and are zeros else. One object per thread; its buffers take kFanBytes an output.
  std::unique_ptr<WindowWriter> writer(std::span<const std::unique_ptr<File>> files) const;

 private:
  friend class FanWriter;
  std::uint64_t find_or_add(const RecordContent& content);

  const Catalog& catalog_;
  std::vector<Output> outputs_;
  std::vector<RecordContent> contents_;
  std::vector<std::uint64_t> of_tensor_;  // record of the sequence + 1; 0: none
  std::vector<std::uint64_t> target_ends_;
  std::vector<Target> targets_;  // by record
  std::vector<std::uint64_t> crc_bytes_;
  std::unique_ptr<ContentSequence> sequence_;
};

/// Of one output in a writer.
inline constexpr std::uint64_t kFanBytes = 1 << 20;

}  // namespace cairn
