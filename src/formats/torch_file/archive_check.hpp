// SPDX-License-Identifier: BSD-3-Clause
// Proves a torch.save archive byte by byte: end records, central directory, every local header and descriptor
// against its central entry, no byte between records, pads, alignment, every stored CRC-32. A large archive
// is checked in slices. Local.
//
// Not looked at, since nothing depends on them: versions, times, attributes, disk numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/metadata.hpp"
#include "formats/torch_file/archive_index.hpp"
#include "storage/sequential_reader.hpp"

namespace cairn::torch_file {

/// Something wrong, at a byte counted from the archive's start.
struct Damage {
  FaultKind kind;
  std::uint64_t byte_offset;
  std::string message;
};

/// The part of a record's payload that one slice holds.
struct PayloadPart {
  std::string record;            ///< its name
  std::uint64_t payload_offset;  ///< from the archive's start
  std::uint64_t record_bytes;
  std::uint32_t stored_crc;
  std::uint64_t begin, bytes;  ///< of the payload
  std::uint32_t crc;           ///< of this part
};

/// What a check found. Damages beyond the limit are counted, not kept.
struct Findings {
  static constexpr std::size_t kMostDamages = 1000;

  std::vector<Damage> damages;
  std::uint64_t damage_count = 0;
  std::vector<PayloadPart> parts;   ///< of records with a CRC that reach beyond the slice
  std::uint64_t checked_bytes = 0;  ///< compared with a stored CRC

  void add(FaultKind kind, std::uint64_t byte_offset, std::string message);
};

/// Checks what belongs to bytes [begin, end) of the archive that starts at byte `base` of the reader's file.
/// Slices that cover the archive check everything once, but for the CRCs of the parts. The slice with byte 0
/// checks the directory. Damage is found, not thrown; what reading throws passes through.
void check_slice(const ArchiveIndex& index, std::uint64_t base, std::uint64_t begin, std::uint64_t end,
                 SequentialReader& reader, Findings& findings);

/// Where the payload of a record begins by its local header, from the archive's start at byte `base` of the
/// reader's file. Nothing is checked.
std::uint64_t payload_begin(const zip::Entry& entry, std::uint64_t base, SequentialReader& reader);

/// Compares the CRC of a whole record with the stored one.
void compare_crc(std::string_view record, std::uint64_t payload_offset, std::uint64_t record_bytes,
                 std::uint32_t stored_crc, std::uint32_t crc, Findings& findings);

}  // namespace cairn::torch_file
