// SPDX-License-Identifier: BSD-3-Clause
// Reads a directory and every payload offset out of arbitrary bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "cairn/error.hpp"
#include "zip/directory.hpp"

namespace {

void read_all(std::span<const std::byte> archive) {
  const cairn::zip::ReadAt read_at = [&](std::uint64_t offset, std::span<std::byte> into) {
    if (offset > archive.size() || into.size() > archive.size() - offset) std::abort();
    std::copy_n(archive.begin() + static_cast<std::ptrdiff_t>(offset), into.size(), into.begin());
  };
  const auto directory = cairn::zip::read_directory(read_at, archive.size(), "input");
  for (const auto& entry : directory.entries) {
    cairn::zip::read_local_header(read_at, directory, entry, "input");
    const auto payload = cairn::zip::payload_offset(archive, directory, entry, "input");
    if (payload > archive.size() || entry.size > archive.size() - payload) std::abort();
    if (directory.find(entry.name) != &entry) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    read_all(std::as_bytes(std::span(data, size)));
  } catch (const cairn::Error&) {
  }
  return 0;
}
