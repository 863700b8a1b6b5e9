// SPDX-License-Identifier: BSD-3-Clause
#include "pickle/numbers.hpp"

#include "base/fail.hpp"

namespace cairn::pickle {

void write_long(std::string_view little_endian, ByteWriter& out) {
  const std::size_t size = little_endian.size();
  if (size > 0x7fffffff) fail(ErrorKind::unsupported, "pickle: an integer of {} bytes", size);
  if (size < 256) {
    out.write(static_cast<std::uint8_t>(Op::long1));
    out.write(static_cast<std::uint8_t>(size));
  } else {
    out.write(static_cast<std::uint8_t>(Op::long4));
    out.write(static_cast<std::int32_t>(size));
  }
  out.text(little_endian);
}

std::size_t write_wide_integer(std::int64_t value, std::byte* into) {
  std::size_t size = sizeof(value);
  // the byte left on top must keep the sign
  while (size > 1 && value >> (8 * (size - 1) - 1) == (value < 0 ? -1 : 0)) --size;
  into[0] = static_cast<std::byte>(Op::long1);
  into[1] = static_cast<std::byte>(size);
  std::memcpy(into + 2, &value, size);
  return 2 + size;
}

}  // namespace cairn::pickle
