// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/run_source.hpp"

#include "base/byte_writer.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "formats/dcp/bare_source.hpp"
#include "formats/dcp/source.hpp"
#include "formats/dcp/structure.hpp"
#include "formats/layout/companions.hpp"
#include "formats/merged/merged_source.hpp"
#include "formats/merged/whole_iteration.hpp"
#include "formats/safetensors/files.hpp"
#include "formats/torch_file/source.hpp"

namespace cairn {
namespace {

safetensors::Site safetensors_site(const SourceSite& site) {
  return {site.directory, site.metadata.name, site.kind == SourceKind::hf_dcp};
}

bool is_directory(SourceKind kind) { return kind == SourceKind::dcp || kind == SourceKind::merged; }

// Field by field: the catalogue's own memory has gaps.
FileDigest digest_of(const Catalog& catalog) {
  ByteWriter out;
  const auto add_item = [&](const StoredItem& item) {
    out.write(item.file);
    out.write(item.byte_offset);
    out.write(item.byte_length);
  };
  for (const std::string& file : catalog.files()) out.counted_text(file);
  for (const Entry& entry : catalog.entries()) {
    out.counted_text(catalog.name(entry));
    for (const PathStep step : catalog.path(entry)) {
      if (step.is_position)
        out.write(step.value);
      else
        out.counted_text(catalog.text(static_cast<StringId>(step.value)));
    }
    if (!entry.is_tensor) {
      add_item(catalog.objects()[entry.index].item);
      continue;
    }
    const TensorInfo& tensor = catalog.tensors()[entry.index];
    out.write(static_cast<std::uint8_t>(tensor.dtype));
    out.append(std::as_bytes(catalog.shape(tensor)));
    for (const StoredItem& chunk : catalog.chunks(tensor)) {
      out.append(std::as_bytes(catalog.box(tensor, chunk).offsets));
      out.append(std::as_bytes(catalog.box(tensor, chunk).sizes));
      add_item(chunk);
    }
  }
  return digest(out.take());
}

MergeRule rule_of(const SourceSite& site, const SourceReading& reading) {
  return site.companion == layout::kMegatronFile ? MergeRule::megatron : reading.lightning;
}

}  // namespace

std::string RunSource::place() const {
  const bool is_file = site_.kind == SourceKind::torch_file ||
                       (site_.kind == SourceKind::safetensors && !safetensors_site(site_).has_index());
  return is_file ? site_.directory + "/" + site_.metadata.name : site_.directory;
}

void RunSource::read_metadata(FileSystem& view, FileSystem& own) {
  if (is_directory(site_.kind)) {
    read_directory(view, own);
  } else if (site_.kind == SourceKind::torch_file) {
    await_file(site_.metadata.name, view.open_read(path(site_.metadata.name))->size());
  } else {
    for (const std::string& name : safetensors::list_files(view, safetensors_site(site_)).names)
      await_file(name, 0);
  }
}

void RunSource::read_directory(FileSystem& view, FileSystem& own) {
  pin_ = ReadPin::take(own, path(site_.metadata.name));
  auto metadata = site_.components.empty()
                      ? dcp::decode_metadata_file(view, site_.directory, faults_)
                      : decode_iteration(view, site_.directory, site_.components, faults_);
  catalog_ = std::move(metadata.catalog);
  metadata_bytes_ = metadata.metadata_bytes;
  notes_ = std::move(metadata.notes);
  if (reading_.with_digest) digest_ = digest_of(catalog_);
  if (!has_companion()) return;
  awaited_ = catalog_;
  await_file(site_.companion, 0);
}

const Catalog& RunSource::awaited() const {
  return is_directory(site_.kind) && !has_companion() ? catalog_ : awaited_;
}

// It is read later, by whoever sees it: so much is known of it.
void RunSource::await_file(const std::string& name, std::uint64_t bytes) {
  awaited_.add_object(awaited_.add_string(name), awaited_.add_file(name), 0, bytes);
}

std::unique_ptr<CheckpointSource> RunSource::open(FileSystem& view) {
  if (is_directory(site_.kind)) return open_directory(view);
  if (site_.kind == SourceKind::torch_file) {
    auto file = open_torch_file(view, site_.metadata.name);
    metadata_bytes_ = file->pickle_bytes();
    return file;
  }
  return open_safetensors(view);
}

std::unique_ptr<CheckpointSource> RunSource::open_directory(FileSystem& view) {
  dcp::check_structure(view, site_.directory, catalog_, faults_);
  faults_.throw_if_any(site_.directory);
  auto shards = std::make_unique<dcp::DirectorySource>(view, site_.directory, std::move(catalog_));
  if (!has_companion()) return shards;
  awaited_ = {};
  auto file = open_torch_file(view, site_.companion);
  if (reading_.with_digest) add_digest(digest_file(view, path(site_.companion)));
  metadata_bytes_ += file->pickle_bytes();
  auto merged = std::make_unique<MergedSource>(std::move(shards), std::move(file), rule_of(site_, reading_));
  add_notes(merged->notes());
  return merged;
}

std::unique_ptr<torch_file::FileSource> RunSource::open_torch_file(FileSystem& view,
                                                                   const std::string& name) {
  auto file = std::make_unique<torch_file::FileSource>(view, site_.directory, name, reading_.empty_dicts);
  add_notes(file->notes());
  return file;
}

std::unique_ptr<CheckpointSource> RunSource::open_safetensors(FileSystem& view) {
  auto contents = safetensors::read_contents(view, safetensors_site(site_), faults_);
  faults_.throw_if_any(site_.directory);
  metadata_bytes_ = contents.metadata_bytes;
  add_notes(contents.notes);
  if (reading_.with_digest) digest_ = digest_of(contents.catalog);
  return std::make_unique<dcp::BareSource>(view, site_.directory, std::move(contents.catalog));
}

void RunSource::add_digest(const FileDigest& other) {
  digest_.bytes += other.bytes;
  digest_.hash = digest_.hash * 31 + other.hash;
}

void RunSource::add_notes(std::span<const std::string> notes) {
  notes_.insert(notes_.end(), notes.begin(), notes.end());
}

std::string default_destination(FileSystem& files, const SourceSite& site) {
  if (site.companion != layout::kLightningFile) return {};
  std::string directory = site.directory;
  while (directory.size() > 1 && directory.ends_with('/')) directory.pop_back();
  const std::string last = directory.substr(directory.rfind('/') + 1);
  if (last == "." || last == "..") directory = files.resolve(directory);
  const std::string file = directory + ".consolidated";
  if (const auto present = files.status(file); present && present->type == FileType::directory)
    fail(ErrorKind::already_exists, "{}: a directory is there, where the file would be", escape_name(file));
  return file;
}

bool follows_links(SourceKind kind) { return kind == SourceKind::safetensors || kind == SourceKind::hf_dcp; }

std::unique_ptr<CheckpointSource> decode_source(FileSystem& files, SourceKind kind,
                                                const std::string& directory,
                                                std::span<const std::byte> encoded) {
  switch (kind) {
    case SourceKind::torch_file:
      return std::make_unique<torch_file::FileSource>(files, directory, encoded);
    case SourceKind::merged:
      return MergedSource::decode(files, directory, encoded);
    case SourceKind::dcp:
      return std::make_unique<dcp::DirectorySource>(files, directory, Catalog::decode(encoded));
    case SourceKind::safetensors:
    case SourceKind::hf_dcp:
      break;
  }
  return std::make_unique<dcp::BareSource>(files, directory, Catalog::decode(encoded));
}

}  // namespace cairn
