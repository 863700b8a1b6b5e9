// SPDX-License-Identifier: BSD-3-Clause
#include "formats/source.hpp"

#include <cassert>
#include <cstring>

namespace cairn {

void Source::read(const ChunkPlace& place, std::uint64_t byte_offset, std::span<std::byte> into) {
  if (place.item.empty()) return read(place.file, byte_offset, into);
  assert(byte_offset >= place.item_offset &&
         byte_offset - place.item_offset + into.size() <= place.item.size());
  std::memcpy(into.data(), place.item.data() + (byte_offset - place.item_offset), into.size());
}

}  // namespace cairn
