// SPDX-License-Identifier: BSD-3-Clause
// Tables that scripts beside them made of what torch says.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

inline std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> out;
  for (;;) {
    const std::size_t end = text.find(at);
    out.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

/// The lines of tests/data/`file`, cut at tabs.
inline std::vector<std::vector<std::string>> tsv_rows(const std::string& file) {
  std::ifstream in(std::string(CAIRN_TEST_DATA) + "/" + file);
  EXPECT_TRUE(in) << file;
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(in, line);) rows.push_back(split(line, '\t'));
  return rows;
}

}  // namespace cairn
