// SPDX-License-Identifier: BSD-3-Clause
// Archives that other programs wrote, from tests/data/zip (made by make_golden.py).
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/byte_writer.hpp"
#include "zip/directory.hpp"

namespace cairn::zip {

inline Bytes golden(std::string_view name) {
  std::ifstream in(std::filesystem::path(CAIRN_TEST_DATA) / "zip" / name, std::ios::binary);
  if (!in) throw std::runtime_error("no golden file " + std::string(name));
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const auto bytes = as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

/// Serves `bytes`; a request outside of them is a fault of the code under test.
inline ReadAt reader_of(std::span<const std::byte> bytes) {
  return [bytes](std::uint64_t offset, std::span<std::byte> into) {
    if (offset > bytes.size() || into.size() > bytes.size() - offset) {
      throw std::logic_error("read outside the archive");
    }
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), into.size(), into.begin());
  };
}

}  // namespace cairn::zip
