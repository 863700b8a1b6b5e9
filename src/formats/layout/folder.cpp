// SPDX-License-Identifier: BSD-3-Clause
#include "formats/layout/folder.hpp"

#include <algorithm>

namespace cairn::layout {

std::string joined(std::string_view directory, std::string_view name) {
  std::string path(directory);
  if (!path.empty() && path.back() != '/') path += '/';
  return path += name;
}

std::string head_of_file(FileSystem& files, const std::string& path, std::size_t limit) {
  const auto file = files.open_read(path);
  std::string text(std::min<std::uint64_t>(file->size(), limit), '\0');
  file->read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

Folder::Folder(FileSystem& files, std::string path)
    : files_(files), path_(std::move(path)), names_(files.list(path_)) {}

bool Folder::has_name(std::string_view name) const { return std::ranges::binary_search(names_, name); }

bool Folder::has(std::string_view name, FileType type) const {
  if (!has_name(name)) return false;
  const auto status = files_.status(at(name));
  return status && status->type == type;
}

bool Folder::reaches_file(std::string_view path) const {
  const auto status = files_.status(at(path));
  return status && status->type == FileType::regular;
}

std::string_view Folder::first(const std::function<bool(std::string_view)>& wanted) const {
  const auto found = std::ranges::find_if(names_, wanted);
  return found == names_.end() ? std::string_view() : std::string_view(*found);
}

std::size_t Folder::count(const std::function<bool(std::string_view)>& wanted) const {
  return static_cast<std::size_t>(std::ranges::count_if(names_, wanted));
}

std::string Folder::head(std::string_view name, std::size_t limit) const {
  return has_file(name) ? head_of_file(files_, at(name), limit) : std::string();
}

bool has_metadata(const Folder& folder) {
  return folder.has_file(".metadata") || folder.has_file("__0.metadata");
}

}  // namespace cairn::layout
