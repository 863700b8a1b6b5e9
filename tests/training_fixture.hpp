// SPDX-License-Identifier: BSD-3-Clause
// Training trees of small checkpoints.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "dcp_fixture.hpp"
#include "temp_dir.hpp"

namespace cairn {

/// A checkpoint of one tensor "w", int32 [4], in two shards, and one object.
inline void write_component(const TempDir& dir, const std::string& folder) {
  DcpFixture fixture;
  fixture.add({"w", DType::int32, {4}, split({4}, 0, 2)});
  fixture.add_object("o", folder);
  fixture.write(dir, folder);
}

inline std::string iteration_folder(int number) {
  const std::string digits = std::to_string(number);
  return "iter_" + std::string(9 - digits.size(), '0') + digits;
}

/// DIR/iter_%09d with these components.
inline std::string write_iteration(const TempDir& dir, int number,
                                   const std::vector<std::string>& components = {"model", "optim",
                                                                                 "trainer"}) {
  const std::string folder = iteration_folder(number);
  for (const std::string& name : components) write_component(dir, folder + "/" + name);
  return dir / folder;
}

inline void write_pointer(const TempDir& dir, const std::string& text) {
  dir.write("latest_checkpoint.txt", text);
}

inline void cut_by_one_byte(const std::string& file) {
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
}

}  // namespace cairn
