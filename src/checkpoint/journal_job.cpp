// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/journal_job.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "base/keyed_hash.hpp"

namespace cairn {
namespace {

constexpr std::uint64_t kPieceBytes = 1 << 20;

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const auto& text : texts) all += (all.empty() ? "" : " ") + text;
  return all;
}

const char* word_of(ObjectPolicy policy) {
  switch (policy) {
    case ObjectPolicy::keep:
      return "keep";
    case ObjectPolicy::safe:
      return "safe";
    case ObjectPolicy::drop:
      return "drop";
  }
  return "?";
}

}  // namespace

FileDigest digest_file(FileSystem& files, const std::string& path) {
  const auto file = files.open_read(path);
  FileDigest digest{file->size(), 0};
  Bytes buffer(std::min(digest.bytes, kPieceBytes));
  for (std::uint64_t at = 0; at < digest.bytes; at += kPieceBytes) {
    const auto piece = std::span(buffer).first(std::min(digest.bytes - at, kPieceBytes));
    file->read(at, piece);
    digest.hash = stable_hash(piece, digest.hash);
  }
  return digest;
}

FileDigest digest(std::span<const std::byte> bytes) { return {bytes.size(), stable_hash(bytes)}; }

JournalJob describe_job(const ConsolidateOptions& options, const ConsolidationPlan& plan,
                        const FileDigest& metadata) {
  const bool by_kernel = options.copy == CopyMode::kernel;
  const NameOptions& names = options.names;
  const auto yes_no = [](bool yes) { return yes ? "yes" : "no"; };
  JournalJob job;
  job.options = {{"--objects", word_of(options.objects)},
                 {"--flat", yes_no(options.flat)},
                 {"--align", std::to_string(options.alignment)},
                 {"--select", joined(names.select)},
                 {"--exclude", joined(names.exclude)},
                 {"--unwrap", yes_no(names.unwrap)},
                 {"--strip-prefix", joined(names.strip_prefix)},
                 {"--rename", joined(names.rename)},
                 {"--map", names.map_file},
                 {"--dequant", yes_no(options.dequant)},
                 {"--cast", joined(names.cast)},
                 {"--ema", yes_no(options.ema)},
                 {"--output", joined(options.more_outputs)},
                 {"--copy", by_kernel ? "kernel" : "user"},
                 {"--verify-source", options.verify_source && !by_kernel ? "on" : "off"}};
  job.metadata_bytes = metadata.bytes;
  job.metadata_hash = metadata.hash;
  job.plan_hash = plan.hash();
  return job;
}

std::vector<JournalJob::Shard> find_shard_times(FileSystem& files, const std::string& directory,
                                                std::span<const std::string> names) {
  std::vector<JournalJob::Shard> shards;
  for (const std::string& name : names) {
    const auto status = files.status(directory + "/" + name);
    shards.push_back({name, status ? status->size : 0, status ? status->modified_ns : 0});
  }
  return shards;
}

void check_pieces_read(const PassedBytes& passed, const Catalog& catalog) {
  for (const CrcPiece& piece : passed.read) {
    if (piece.of >= catalog.chunks().size())
      fail_corrupt("the journal tells of chunk {} of {}", piece.of, catalog.chunks().size());
  }
}

}  // namespace cairn
