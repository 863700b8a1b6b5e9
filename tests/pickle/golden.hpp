// SPDX-License-Identifier: BSD-3-Clause
// The pickles that make_cases.py wrote, and short ways to read and write.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_writer.hpp"
#include "pickle/reader.hpp"
#include "pickle/writer.hpp"

namespace cairn::pickle {

using namespace std::string_literals;

inline std::filesystem::path golden_folder() { return std::filesystem::path(CAIRN_TEST_DATA) / "pickle"; }

inline std::string golden(const std::string& name) {
  std::ifstream file(golden_folder() / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// "shared" for shared.p2.pkl.
inline std::vector<std::string> golden_cases() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder())) {
    const std::string name = entry.path().filename().string();
    if (const auto end = name.find(".p2.pkl"); end != std::string::npos) names.push_back(name.substr(0, end));
  }
  return names;
}

inline Value read_text(Arena& arena, std::string_view pickle) {
  return read(arena, as_bytes(pickle), "test");
}

inline std::string written(const Arena& arena, Value root) {
  ByteWriter out;
  write_protocol2(arena, root, out);
  return std::string(as_text(out.view()));
}

inline std::string rewritten(std::string_view pickle) {
  Arena arena;
  const Value root = read_text(arena, pickle);
  return written(arena, root);
}

}  // namespace cairn::pickle
