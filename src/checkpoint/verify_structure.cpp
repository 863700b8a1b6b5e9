// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/verify_structure.hpp"

#include <unordered_set>

#include "base/fail.hpp"
#include "base/keyed_hash.hpp"
#include "base/text.hpp"
#include "checkpoint/manifest_check.hpp"
#include "formats/dcp/structure.hpp"
#include "formats/safetensors/files.hpp"
#include "formats/torch_file/archive_index.hpp"

namespace cairn {
namespace {

constexpr std::size_t kMostNamed = 20;

bool is_leftover(std::string_view name) {
  return name.ends_with(".tmp") || (name.starts_with(".") && name.ends_with(".cairn-part"));
}

// Warnings of one kind about files of a directory: the first few by name.
class FileWarnings {
 public:
  FileWarnings(const std::string& directory, std::string_view what) : directory_(directory), what_(what) {}

  void add(const std::string& name, std::vector<std::string>& warnings) {
    if (++count_ > kMostNamed) return;
    warnings.push_back(fmt::format("{}/{}: {}", directory_, escape_name(name), what_));
  }
  void finish(std::vector<std::string>& warnings) const {
    if (count_ <= kMostNamed) return;
    warnings.push_back(
        fmt::format("{}: {} more files of this kind: {}", directory_, count_ - kMostNamed, what_));
  }

 private:
  const std::string& directory_;
  std::string_view what_;
  std::size_t count_ = 0;
};

void warn_of_others(FileSystem& files, const std::string& directory, const Catalog& catalog,
                    std::vector<std::string>& warnings) {
  const std::unordered_set<std::string, KeyedHash> known(catalog.files().begin(), catalog.files().end());
  FileWarnings orphans(directory, "a shard file that nothing refers to");
  FileWarnings leftovers(directory, "left by a run that did not finish");
  for (const auto& name : files.list(directory)) {
    if (known.contains(name)) continue;
    if (is_leftover(name)) leftovers.add(name, warnings);
    if (!name.ends_with(".distcp")) continue;
    const auto status = files.status(directory + "/" + name);
    if (status && status->size > 0) orphans.add(name, warnings);
  }
  orphans.finish(warnings);
  leftovers.finish(warnings);
}

VerifyTask check_directory(FileSystem& files, const std::string& directory, VerifyReport& report) {
  VerifyTask task;
  auto metadata = dcp::read_metadata(files, directory, report.faults, task.file_sizes);
  task.manifest = check_manifest(files, directory, metadata, report.faults, report.warnings);
  task.catalog = std::move(metadata.catalog);
  const Catalog& catalog = task.catalog;
  report.tensors += catalog.tensors().size();
  report.objects += catalog.objects().size();
  report.chunks += catalog.chunks().size();
  report.files += catalog.files().size();
  for (const TensorInfo& tensor : catalog.tensors()) report.payload_bytes += catalog.byte_count(tensor);
  report.warnings.insert(report.warnings.end(), metadata.notes.begin(), metadata.notes.end());
  warn_of_others(files, directory, catalog, report.warnings);
  return task;
}

VerifyTask check_torch_file(FileSystem& files, const std::string& path, VerifyReport& report) {
  VerifyTask task;
  task.catalog.add_file(path);
  const auto file = files.open_read(path);
  task.file_sizes.push_back(file->size());
  report.torch_files += 1;
  report.payload_bytes += file->size();
  torch_file::ArchiveIndex index;
  try {
    index.read([&](std::uint64_t at, std::span<std::byte> into) { file->read(at, into); }, file->size());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::corrupt && error.kind() != ErrorKind::unsupported) throw;
    report.faults.add(
        {FaultKind::header, {}, path, 0, fmt::format("{}: {}", escape_name(path), error.message())});
    task.file_sizes.back() = dcp::kNoSize;
  }
  return task;
}

void add_unchecked(const Catalog& catalog, const TensorInfo& tensor, FaultList& faults) {
  for (const StoredItem& item : catalog.chunks(tensor)) {
    if (faults.full()) {
      faults.add_unlisted(1);
      continue;
    }
    const std::string& file = catalog.files()[item.file];
    faults.add({FaultKind::crc, std::string(catalog.name(tensor)), file, item.byte_offset,
                fmt::format("'{}' in {} at byte {}: safetensors files store no CRC-32",
                            escape_name(catalog.name(tensor)), escape_name(file), item.byte_offset)});
  }
}

// Nothing in the files tells more of the bytes than their number.
VerifyTask check_safetensors(FileSystem& files, const Located& located, bool strict, VerifyReport& report) {
  const safetensors::Site site = site_of(files, located);
  auto contents = safetensors::read_contents(files, site, report.faults);
  const Catalog& catalog = contents.catalog;
  report.tensors += catalog.tensors().size();
  report.chunks += catalog.chunks().size();
  report.files += catalog.files().size();
  report.unchecked_items += catalog.chunks().size();
  for (const TensorInfo& tensor : catalog.tensors()) {
    report.payload_bytes += catalog.byte_count(tensor);
    if (strict) add_unchecked(catalog, tensor, report.faults);
  }
  report.warnings.insert(report.warnings.end(), contents.notes.begin(), contents.notes.end());
  return {};
}

}  // namespace

VerifyTask verify_structure(FileSystem& files, const Located& located, bool strict, VerifyReport& report) {
  VerifyTask task = located.kind == Located::Kind::dcp ? check_directory(files, located.path, report)
                    : located.kind == Located::Kind::torch_file
                        ? check_torch_file(files, located.path, report)
                        : check_safetensors(files, located, strict, report);
  task.kind = located.kind;
  task.path = located.path;
  report.components.push_back(located.path);
  if (!located.note.empty()) report.warnings.push_back(located.note);
  return task;
}

}  // namespace cairn
