// SPDX-License-Identifier: BSD-3-Clause
// What a run reads, from its metadata to the source of its chunks. Local; what is collective about finding it
// is in checkpoint/visibility.hpp.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cairn/checkpoint.hpp"
#include "checkpoint/journal_job.hpp"
#include "checkpoint/visibility.hpp"
#include "formats/checkpoint_source.hpp"
#include "formats/merged/merge_rules.hpp"
#include "formats/torch_file/source.hpp"
#include "storage/read_pin.hpp"

namespace cairn {

/// How it is read.
struct SourceReading {
  torch_file::EmptyDicts empty_dicts = torch_file::EmptyDicts::keep;
  MergeRule lightning = MergeRule::lightning_trainer;
  bool with_companion = true;  ///< else the shards alone, under their stored names
  bool with_digest = false;    ///< for a journal
};

/// Held by the coordinator.
class RunSource {
 public:
  RunSource(const SourceSite& site, const SourceReading& reading) : site_(site), reading_(reading) {}

  /// What must not be overwritten: the directory, or the file.
  std::string place() const;
  /// Reads the metadata by way of `view`, and pins it by way of `own`. Throws what reading throws.
  void read_metadata(FileSystem& view, FileSystem& own);
  /// The files that it needs, with the items in them as far as they are known.
  const Catalog& awaited() const;
  /// Checks the structure and opens it. Throws corrupt with the faults found. `view` outlives the source.
  std::unique_ptr<CheckpointSource> open(FileSystem& view);

  std::uint64_t metadata_bytes() const { return metadata_bytes_; }
  const FileDigest& digest() const { return digest_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  std::string path(const std::string& name) const { return site_.directory + "/" + name; }
  void read_directory(FileSystem& view, FileSystem& own);
  std::unique_ptr<CheckpointSource> open_directory(FileSystem& view);
  std::unique_ptr<torch_file::FileSource> open_torch_file(FileSystem& view, const std::string& name);
  std::unique_ptr<CheckpointSource> open_safetensors(FileSystem& view);
  void add_digest(const FileDigest& other);
  void add_notes(std::span<const std::string> notes);
  bool has_companion() const { return reading_.with_companion && !site_.companion.empty(); }
  void await_file(const std::string& name, std::uint64_t bytes);

  SourceSite site_;
  SourceReading reading_;
  FaultList faults_;
  Catalog catalog_;  // of a directory
  Catalog awaited_;  // of others
  ReadPin pin_;      // of a directory; one keeps an iteration with all its components
  std::uint64_t metadata_bytes_ = 0;
  FileDigest digest_;
  std::vector<std::string> notes_;
};

/// `<folder>.consolidated` of a Lightning folder, as Lightning's own tool names it; else empty. Throws
/// already_exists when a directory is there.
std::string default_destination(FileSystem& files, const SourceSite& site);

/// Whether files of such a source may be links out of its directory.
bool follows_links(SourceKind kind);

/// Another rank: from what CheckpointSource::encode() gave. `files` outlives the source.
std::unique_ptr<CheckpointSource> decode_source(FileSystem& files, SourceKind kind,
                                                const std::string& directory,
                                                std::span<const std::byte> encoded);

}  // namespace cairn
