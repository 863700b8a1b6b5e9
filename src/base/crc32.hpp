// SPDX-License-Identifier: BSD-3-Clause
// CRC-32 as zip uses it (polynomial 0xedb88320, reflected). ISA-L where it was found, zlib otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace cairn {

/// CRC of `bytes` appended to data whose CRC is `crc` (0 for none).
std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t crc = 0);

/// CRC of A followed by B, from both CRCs and the length of B in bytes.
std::uint32_t crc32_combine(std::uint32_t crc_a, std::uint32_t crc_b, std::uint64_t length_b);

/// "isa-l" or "zlib".
const char* crc32_engine();

}  // namespace cairn
