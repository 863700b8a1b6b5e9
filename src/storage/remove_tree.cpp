// SPDX-License-Identifier: BSD-3-Clause
#include "storage/remove_tree.hpp"

#include <functional>

#include "cairn/error.hpp"

namespace cairn {
namespace {

template <class Body>
void unless_gone(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::not_found) throw;
  }
}

using Visit = std::function<void(const std::string& path, bool is_directory)>;

// What is in a directory before the directory.
void walk(FileSystem& files, const std::string& path, const Visit& visit) {
  const auto status = files.status(path, false);
  if (!status) return;
  const bool is_directory = status->type == FileType::directory;
  if (is_directory) {
    unless_gone([&] {
      for (const std::string& name : files.list(path)) walk(files, path + "/" + name, visit);
    });
  }
  visit(path, is_directory);
}

}  // namespace

void remove_tree(FileSystem& files, const std::string& path, std::string_view first) {
  walk(files, path, [&](const std::string& found, bool is_directory) {
    if (is_directory || found.substr(found.rfind('/') + 1) != first) return;
    unless_gone([&] { files.unlink(found); });
  });
  walk(files, path, [&](const std::string& found, bool is_directory) {
    unless_gone([&] { is_directory ? files.remove_directory(found) : files.unlink(found); });
  });
}

}  // namespace cairn
