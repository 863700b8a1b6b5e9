// SPDX-License-Identifier: BSD-3-Clause
// A compressed item from any bytes: expanded from front to back, then read by range.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cairn/error.hpp"
#include "formats/dcp/expanded_items.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cairn;
  constexpr std::uint64_t most = 1 << 20;
  const auto read = [&](std::uint64_t at, std::span<std::byte> into) {
    if (at > size || into.size() > size - at) std::abort();  // a read outside the item
    if (!into.empty()) std::memcpy(into.data(), data + at, into.size());
  };
  dcp::ExpandedItems items([&](std::uint64_t) {
    return dcp::ExpandedItems::Stored{read, size, most, "input"};
  });
  try {
    const std::uint64_t bytes = items.size(0);
    if (bytes > most) std::abort();
    std::vector<std::byte> all(bytes), again(bytes / 2);
    items.read(0, 0, all);
    items.read(0, bytes - again.size(), again);
    if (!again.empty() && std::memcmp(again.data(), all.data() + (bytes - again.size()), again.size()) != 0)
      std::abort();
    items.read(0, bytes, std::span(again).first(0));
  } catch (const Error&) {
  }
  return 0;
}
