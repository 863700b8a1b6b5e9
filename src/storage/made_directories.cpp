// SPDX-License-Identifier: BSD-3-Clause
#include "storage/made_directories.hpp"

#include <filesystem>

#include "cairn/error.hpp"

namespace cairn {

MadeDirectories::~MadeDirectories() {
  for (; !made_.empty(); made_.pop_back()) {
    try {
      files_.remove_directory(made_.back());
    } catch (const Error&) {  // something is in it
    }
  }
}

void MadeDirectories::make(const std::string& path) {
  std::vector<std::string> missing;
  for (std::filesystem::path above = path; !above.empty() && !files_.status(above.string());
       above = above.parent_path())
    missing.push_back(above.string());
  made_.insert(made_.end(), missing.rbegin(), missing.rend());
  files_.make_directories(path);
}

}  // namespace cairn
