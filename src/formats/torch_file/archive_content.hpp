// SPDX-License-Identifier: BSD-3-Clause
// What an archive says about itself: its pickle, the storages the pickle names, the byte order. For checks of
// archives whose bytes torch_file/archive_check.hpp proves: damage that it reports is passed over here.
// Local.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/byte_writer.hpp"
#include "formats/torch_file/archive_index.hpp"
#include "pickle/value.hpp"
#include "storage/sequential_reader.hpp"

namespace cairn::torch_file {

/// The content of a record, by name without the archive's. nullopt where its header or its CRC-32 is damaged.
/// Throws corrupt where there is no such record. The archive starts at byte `base` of the reader's file.
std::optional<Bytes> read_intact(std::string_view name, const ArchiveIndex& index, std::uint64_t base,
                                 SequentialReader& reader);

/// Proves that the archive's pickle can be read and that every storage it names is a record of its size.
/// Returns its value; nullopt where the bytes of the pickle are damaged. Throws corrupt or unsupported.
std::optional<pickle::Value> check_content(pickle::Arena& arena, const ArchiveIndex& index,
                                           std::uint64_t base, SequentialReader& reader);

/// Throws unsupported for big-endian archives, corrupt for an unknown byte order.
void check_byte_order(const ArchiveIndex& index, std::uint64_t base, SequentialReader& reader);

}  // namespace cairn::torch_file
