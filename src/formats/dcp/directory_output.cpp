// SPDX-License-Identifier: BSD-3-Clause
#include "formats/dcp/directory_output.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "base/fail.hpp"

namespace cairn::dcp {
namespace {

constexpr std::string_view kShardStart = "__", kShardEnd = ".distcp";

// Decimal digits without a leading zero.
template <class Number>
bool take_number(std::string_view& text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto length = static_cast<std::size_t>(end - text.data());
  if (error != std::errc() || text[0] == '-' || (text[0] == '0' && length > 1)) return false;
  text.remove_prefix(length);
  return true;
}

std::string join(const std::string& directory, std::string_view name) {
  return (std::filesystem::path(directory) / name).string();
}

void refuse_what_is_there(FileSystem& files, const std::string& directory, bool overwrite) {
  const auto status = files.status(directory);
  if (!status) return;
  if (status->type != FileType::directory)
    fail(ErrorKind::already_exists, "{}: is there and is no directory", directory);
  if (!overwrite && files.status(join(directory, kMetadataName), false)) {
    throw Error(ErrorKind::already_exists, directory + ": a checkpoint is there already",
                "overwrite it, or save elsewhere");
  }
}

// What is written over a link changes what it leads to, which may be another checkpoint's.
void refuse_link(FileSystem& files, const std::string& path) {
  const auto status = files.status(path, false);
  if (status && status->type == FileType::symlink)
    throw Error(ErrorKind::already_exists, path + ": is a link, and nothing is saved through it",
                "remove it, or save elsewhere");
}

void refuse_links(FileSystem& files, const std::string& directory, const std::vector<std::string>& beside) {
  for (const std::string_view name : {kMetadataName, kManifestName})
    refuse_link(files, join(directory, name));
  for (const std::string& name : beside) refuse_link(files, join(directory, name));
}

}  // namespace

std::string shard_name(int rank, std::uint32_t index) {
  return fmt::format("{}{}_{}{}", kShardStart, rank, index, kShardEnd);
}

std::optional<ShardNumbers> shard_numbers(std::string_view name) {
  if (!name.starts_with(kShardStart) || !name.ends_with(kShardEnd)) return std::nullopt;
  name.remove_prefix(kShardStart.size());
  name.remove_suffix(kShardEnd.size());
  ShardNumbers numbers{};
  if (name.empty() || !take_number(name, numbers.rank) || !name.starts_with('_')) return std::nullopt;
  name.remove_prefix(1);
  if (name.empty() || !take_number(name, numbers.index) || !name.empty()) return std::nullopt;
  return numbers;
}

DirectoryOutput DirectoryOutput::create(FileSystem& files, const std::string& directory, bool overwrite,
                                        const std::vector<std::string>& beside) {
  refuse_what_is_there(files, directory, overwrite);
  files.make_directories(directory);
  const std::string place = files.resolve(directory);
  refuse_links(files, place, beside);
  std::vector<AtomicOutput> outputs;
  outputs.push_back(AtomicOutput::create(files, join(place, kMetadataName), 0, overwrite, true));
  drop_orphaned_manifest(files, place, overwrite);  // nobody is saving now
  for (const std::string& name : beside)
    outputs.push_back(AtomicOutput::create(files, join(place, name), 0, overwrite, true));
  return {files, place, AtomicOutputs(files, overwrite, std::move(outputs)), overwrite, beside};
}

DirectoryOutput::Place DirectoryOutput::check(FileSystem& files, const std::string& directory, bool overwrite,
                                              bool discard_leftover, const std::vector<std::string>& beside) {
  refuse_what_is_there(files, directory, overwrite);
  refuse_links(files, directory, beside);
  const auto metadata =
      AtomicOutputs::check(files, {{join(directory, kMetadataName), 0}}, overwrite, discard_leftover);
  Place place{std::filesystem::path(metadata.front()).parent_path().string(), 0};
  if (files.status(directory)) place.first_index = next_shard_index(files, place.directory);
  return place;
}

DirectoryOutput::DirectoryOutput(FileSystem& files, std::string directory, AtomicOutputs outputs,
                                 bool overwrite, const std::vector<std::string>& beside)
    : files_(&files), directory_(std::move(directory)), outputs_(std::move(outputs)) {
  first_index_ = next_shard_index(files, directory_);
  replaced_ = ReplacedFiles(files, directory_, first_index_, overwrite, beside);
}

DirectoryOutput::DirectoryOutput(DirectoryOutput&& other) noexcept
    : files_(std::exchange(other.files_, nullptr)),
      directory_(std::move(other.directory_)),
      outputs_(std::move(other.outputs_)),
      published_(other.published_),
      replaced_(std::move(other.replaced_)),
      first_index_(other.first_index_) {}

DirectoryOutput::~DirectoryOutput() {
  if (files_ == nullptr || published_) return;
  try {
    remove_new_shards();
  } catch (const Error&) {  // orphans: nothing refers to them
  }
}

std::string DirectoryOutput::path(std::string_view name) const { return join(directory_, name); }

void DirectoryOutput::publish(const Write& metadata, const std::vector<Write>& beside, bool sync,
                              std::vector<std::string>& warnings) {
  write(0, metadata);
  for (std::size_t i = 0; i < beside.size(); ++i) write(i + 1, beside[i]);
  if (sync) files_->sync_directory(directory_);  // the names of the shards, before anything speaks of them
  try {
    outputs_.publish(sync);
  } catch (...) {
    published_ = outputs_[0].is_shown();
    throw;
  }
  published_ = true;
  replaced_.remove(*files_, warnings);
}

void DirectoryOutput::write(std::size_t output, const Write& write) const {
  const auto file = files_->open_write(outputs_[output].temporary_path());
  write(*file);
  file->close();
}

void DirectoryOutput::remove_new_shards() const {
  for (const std::string& name : files_->list(directory_)) {
    const auto numbers = shard_numbers(name);
    if (numbers && numbers->index >= first_index_) files_->unlink(path(name));
  }
}

}  // namespace cairn::dcp
