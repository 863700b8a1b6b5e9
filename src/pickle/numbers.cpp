// SPDX-License-Identifier: BSD-3-Clause
#include "pickle/numbers.hpp"

#include <array>
#include <bit>

#include "base/fail.hpp"

namespace cairn::pickle {
namespace {

std::string_view without_sign_bytes(std::string_view digits) {
  const char sign = digits.back() < 0 ? '\xff' : '\0';
  while (digits.back() == sign && (digits[digits.size() - 2] < 0) == (sign != 0)) digits.remove_suffix(1);
  return digits;
}

}  // namespace

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

void write_long(std::int64_t value, ByteWriter& out) {
  const auto bytes = std::bit_cast<std::array<char, 8>>(value);
  write_long(without_sign_bytes({bytes.data(), bytes.size()}), out);
}

}  // namespace cairn::pickle
