// SPDX-License-Identifier: BSD-3-Clause
// What a format answers to be written: where the bytes of each record go, and what stands between them. Pure:
// known before any payload is read, the same on every rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "plan/windows.hpp"

namespace cairn {

/// An output file: a head, a region of records one after the other, a tail. Records are numbered in file
/// order; a record is its frame's front (headers, padding), its payload, its frame's back (a descriptor; may
/// be empty). Head and tail, and backs of records that more than one window holds, are written in the closing
/// phase.
class OutputLayout {
 public:
  virtual ~OutputLayout() = default;

  virtual std::uint64_t record_count() const = 0;
  /// From the front of the first record to the back of the last.
  virtual ByteRange region() const = 0;
  /// Front, payload and back of a record.
  virtual ByteRange extent(std::uint64_t record) const = 0;
  virtual ByteRange payload(std::uint64_t record) const = 0;

  /// The front's bytes; `into` has payload.begin - extent.begin bytes.
  virtual void write_front(std::uint64_t record, std::span<std::byte> into) const = 0;
  /// The back's bytes; `into` has extent.end - payload.end bytes, `crc` is that of the payload.
  virtual void write_back(std::uint64_t record, std::uint32_t crc, std::span<std::byte> into) const = 0;

  /// The record whose extent holds this byte of the region.
  std::uint64_t record_at(std::uint64_t byte_offset) const;
};

}  // namespace cairn
