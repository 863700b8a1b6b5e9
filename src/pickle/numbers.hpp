// SPDX-License-Identifier: BSD-3-Clause
// How CPython's picklers of protocol 2 and later write ints (Modules/_pickle.c: save_long). Local, pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/byte_writer.hpp"
#include "pickle/opcodes.hpp"

namespace cairn::pickle {

/// An int beyond 32 bits: two's complement, no byte more than needed. Throws unsupported above 2 GiB.
void write_long(std::string_view little_endian, ByteWriter& out);
/// The same of a value of up to 64 bits.
void write_long(std::int64_t value, ByteWriter& out);

/// Any int of up to 64 bits, with the shortest opcode.
inline void write_integer(std::int64_t value, ByteWriter& out) {
  if (value >= 0 && value <= 0xff) {
    out.write(static_cast<std::uint8_t>(Op::binint1));
    return out.write(static_cast<std::uint8_t>(value));
  }
  if (value >= 0 && value <= 0xffff) {
    out.write(static_cast<std::uint8_t>(Op::binint2));
    return out.write(static_cast<std::uint16_t>(value));
  }
  if (value != static_cast<std::int32_t>(value)) return write_long(value, out);
  out.write(static_cast<std::uint8_t>(Op::binint));
  out.write(static_cast<std::int32_t>(value));
}

}  // namespace cairn::pickle
