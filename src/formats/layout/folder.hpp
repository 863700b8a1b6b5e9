// SPDX-License-Identifier: BSD-3-Clause
// A listed directory, to ask what lies in it. Local.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/storage.hpp"

namespace cairn::layout {

/// "a/b" from "a", "a/" or "" (then "b") and "b".
std::string joined(std::string_view directory, std::string_view name);

/// The first bytes of a regular file, as many as there are up to `limit`.
std::string head_of_file(FileSystem& files, const std::string& path, std::size_t limit);

/// Lists once, on construction, which throws what FileSystem::list throws. Links are followed.
class Folder {
 public:
  Folder(FileSystem& files, std::string path);

  const std::string& path() const { return path_; }
  const std::vector<std::string>& names() const { return names_; }
  std::string at(std::string_view name) const { return joined(path_, name); }

  /// Whatever it is: a link that leads nowhere, too.
  bool has_name(std::string_view name) const;
  bool has_file(std::string_view name) const { return has(name, FileType::regular); }
  bool has_directory(std::string_view name) const { return has(name, FileType::directory); }
  /// Whether `path`, relative to the folder, is a regular file. Works over several components.
  bool reaches_file(std::string_view path) const;
  /// Empty when there is none. Only names are looked at.
  std::string_view first(const std::function<bool(std::string_view)>& wanted) const;
  std::size_t count(const std::function<bool(std::string_view)>& wanted) const;
  /// Up to `limit` bytes of the regular file `name`; empty where it is none.
  std::string head(std::string_view name, std::size_t limit) const;

 private:
  bool has(std::string_view name, FileType type) const;

  FileSystem& files_;
  std::string path_;
  std::vector<std::string> names_;  // sorted
};

/// Whether it is a DCP directory by what lies in it: `.metadata`, or `__0.metadata`, the first of one file a
/// rank.
bool has_metadata(const Folder& folder);

}  // namespace cairn::layout
