// SPDX-License-Identifier: BSD-3-Clause
// Short forms for the wire: numbers of seven bits a byte. Pure.
#pragma once

#include <cstdint>
#include <span>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"

namespace cairn {

inline void write_number(ByteWriter& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.write(static_cast<std::uint8_t>(value | 0x80));
  out.write(static_cast<std::uint8_t>(value));
}

/// Throws corrupt when the bytes end or the number is larger than `most`.
inline std::uint64_t read_number(ByteReader& in, std::uint64_t most = ~std::uint64_t{0}) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const auto byte = in.read<std::uint8_t>();
    value |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte >= 0x80) continue;
    if ((shift == 63 && byte > 1) || value > most)
      fail_corrupt("plan: number at byte {} is larger than {}", in.position(), most);
    return value;
  }
  fail_corrupt("plan: number at byte {} does not end", in.position());
}

inline void write_coordinates(ByteWriter& out, std::span<const std::int64_t> values) {
  for (const std::int64_t value : values) write_number(out, static_cast<std::uint64_t>(value));
}

}  // namespace cairn
