// SPDX-License-Identifier: BSD-3-Clause
#include "base/crc32.hpp"

#include <zlib.h>

#ifdef CAIRN_HAVE_ISAL
#include <isa-l/crc.h>
#endif

namespace cairn {

#ifdef CAIRN_HAVE_ISAL
std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t crc) {
  return crc32_gzip_refl(crc, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}
const char* crc32_engine() { return "isa-l"; }
#else
std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t crc) {
  return static_cast<std::uint32_t>(
      crc32_z(crc, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}
const char* crc32_engine() { return "zlib"; }
#endif

std::uint32_t crc32_combine(std::uint32_t crc_a, std::uint32_t crc_b, std::uint64_t length_b) {
  return static_cast<std::uint32_t>(::crc32_combine64(crc_a, crc_b, static_cast<z_off64_t>(length_b)));
}

}  // namespace cairn
