// SPDX-License-Identifier: BSD-3-Clause
#include "formats/dcp/replaced_files.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <utility>

#include "base/fail.hpp"
#include "formats/dcp/directory_output.hpp"
#include "formats/layout/companions.hpp"

namespace cairn::dcp {
namespace {

std::string join(const std::string& directory, std::string_view name) {
  return (std::filesystem::path(directory) / name).string();
}

}  // namespace

std::uint32_t next_shard_index(FileSystem& files, const std::string& directory) {
  std::uint32_t next = 0;
  for (const std::string& name : files.list(directory)) {
    const auto numbers = shard_numbers(name);
    if (!numbers) continue;
    if (numbers->index == std::numeric_limits<std::uint32_t>::max())
      fail(ErrorKind::already_exists, "{}: no higher number is left", join(directory, name));
    next = std::max(next, numbers->index + 1);
  }
  return next;
}

ReplacedFiles::ReplacedFiles(FileSystem& files, std::string directory, std::uint32_t first_index,
                             bool overwrite, const std::vector<std::string>& beside)
    : directory_(std::move(directory)), overwrite_(overwrite) {
  for (const std::string& name : files.list(directory_)) {
    const auto numbers = shard_numbers(name);
    if (numbers && numbers->index < first_index) shards_.push_back(name);
  }
  if (!overwrite || !files.status(join(directory_, kMetadataName), false)) return;
  beside_ = layout::companion_files(layout::Folder(files, directory_));
  beside_.emplace_back(kManifestName);
  std::erase_if(beside_, [&](const std::string& name) {
    return std::ranges::find(beside, name) != beside.end() || !files.status(join(directory_, name), false);
  });
}

void ReplacedFiles::remove(FileSystem& files, std::vector<std::string>& warnings) const {
  std::vector<std::string> names = overwrite_ ? shards_ : std::vector<std::string>{};
  names.insert(names.end(), beside_.begin(), beside_.end());
  for (const std::string& name : names) {
    const std::string path = join(directory_, name);
    try {
      files.unlink(path);
    } catch (const Error& error) {
      warnings.push_back(
          fmt::format("{}: what belonged to the old checkpoint stays: {}", path, error.message()));
    }
  }
  if (!overwrite_ && !shards_.empty()) {
    warnings.push_back(fmt::format(
        "{}: {} shard files that were there before belong to no checkpoint; --overwrite removes such",
        directory_, shards_.size()));
  }
}

void drop_orphaned_manifest(FileSystem& files, const std::string& directory, bool overwrite) {
  const std::string manifest = join(directory, kManifestName);
  if (!overwrite && files.status(manifest, false)) files.unlink(manifest);
}

}  // namespace cairn::dcp
