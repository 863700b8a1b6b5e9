// SPDX-License-Identifier: BSD-3-Clause
// An item of a `.distcp` from any bytes, read as a tensor and as an object.
#include <cstdlib>
#include <cstring>

#include "cairn/error.hpp"
#include "formats/dcp/item.hpp"
#include "pickle/globals.hpp"
#include "pickle/persistent_nodes.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cairn;
  const zip::ReadAt read = [&](std::uint64_t at, std::span<std::byte> into) {
    if (at > size || into.size() > size - at) std::abort();  // a read outside the item
    if (!into.empty()) std::memcpy(into.data(), data + at, into.size());
  };
  try {
    const auto head = dcp::read_item_head(read, size, "input");
    if (head.storage_at + head.storage_bytes > size || head.first_byte > size) std::abort();
  } catch (const Error&) {
  }
  try {
    pickle::Arena arena;
    const dcp::ObjectItem item(read, size, "input");
    const auto value = item.read(arena);
    pickle::unsafe_parts(arena, value);
    for (const auto node : pickle::persistent_nodes(arena, value)) {
      const auto storage = item.storage(arena, arena.persistent_id(node));
      if (storage.byte_offset + storage.bytes > size) std::abort();
    }
  } catch (const Error&) {
  }
  return 0;
}
