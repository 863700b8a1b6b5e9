// SPDX-License-Identifier: BSD-3-Clause
// How CPython's picklers of protocol 2 and later write ints (Modules/_pickle.c: save_long). Local, pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/byte_writer.hpp"
#include "pickle/opcodes.hpp"

namespace cairn::pickle {

/// An int beyond 64 bits: two's complement, no byte more than needed. Throws unsupported above 2 GiB.
void write_long(std::string_view little_endian, ByteWriter& out);

/// An int beyond 32 bits, as write_integer. Returns how many bytes it wrote.
std::size_t write_wide_integer(std::int64_t value, std::byte* into);

/// Any int of up to 64 bits with the shortest opcode, at most kIntegerBytes. Returns how many bytes it wrote.
inline constexpr std::size_t kIntegerBytes = 10;
inline std::size_t write_integer(std::int64_t value, std::byte* into) {
  const auto write = [into](Op code, auto number) {
    *into = static_cast<std::byte>(code);
    std::memcpy(into + 1, &number, sizeof(number));
    return 1 + sizeof(number);
  };
  if (value >= 0 && value <= 0xff) return write(Op::binint1, static_cast<std::uint8_t>(value));
  if (value >= 0 && value <= 0xffff) return write(Op::binint2, static_cast<std::uint16_t>(value));
  const auto narrow = static_cast<std::int32_t>(value);
  return narrow == value ? write(Op::binint, narrow) : write_wide_integer(value, into);
}

}  // namespace cairn::pickle
