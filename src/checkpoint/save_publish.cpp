// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/save_publish.hpp"

#include <random>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"
#include "base/fail.hpp"
#include "base/sha256.hpp"
#include "checkpoint/save_parts.hpp"
#include "formats/dcp/manifest.hpp"
#include "formats/dcp/metadata_encoder.hpp"
#include "parallel/agree.hpp"

namespace cairn {
namespace {

// A random UUID (RFC 9562, version 4), as torch's planner makes one for each save.
std::string new_save_id() {
  std::random_device entropy;
  std::uint32_t words[4];
  for (std::uint32_t& word : words) word = entropy();
  words[1] = (words[1] & 0xffff0fffu) | 0x4000u;
  words[2] = (words[2] & 0x3fffffffu) | 0x80000000u;
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:04x}{:08x}", words[0], words[1] >> 16, words[1] & 0xffffu,
                     words[2] >> 16, words[2] & 0xffffu, words[3]);
}

std::vector<WrittenItem> decode_written(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "items of a rank");
  std::vector<WrittenItem> items;
  while (!in.at_end()) {
    const auto byte_offset = in.read<std::uint64_t>(), byte_length = in.read<std::uint64_t>();
    items.push_back({byte_offset, byte_length, in.read<std::uint32_t>()});
  }
  return items;
}

using WrittenByRank = std::vector<std::vector<WrittenItem>>;

Catalog located(const OpenedSave& save, const WrittenByRank& written) {
  std::vector<std::vector<ItemPlace>> places;
  for (const auto& rank : written) {
    auto& here = places.emplace_back();
    for (const WrittenItem& item : rank) here.push_back({item.byte_offset, item.byte_length});
  }
  return save.whole->located(
      places, [&](int rank, std::uint32_t file) { return dcp::shard_name(rank, save.first_index + file); });
}

dcp::Manifest manifest_of(const OpenedSave& save, const WrittenByRank& written) {
  dcp::Manifest manifest;
  for (std::size_t rank = 0; rank < written.size(); ++rank) {
    std::optional<std::uint32_t> file;
    for (std::size_t i = 0; i < written[rank].size(); ++i) {
      const std::uint32_t number = save.whole->parts[rank].items()[i].file;
      if (file != number)
        manifest.files.push_back({dcp::shard_name(static_cast<int>(rank), save.first_index + number), {}});
      file = number;
      const auto [byte_offset, byte_length, crc] = written[rank][i];
      manifest.files.back().items.push_back({byte_offset, byte_length, crc});
    }
  }
  return manifest;
}

void write_metadata(File& file, const Catalog& catalog, const dcp::StorageMeta& meta, bool with_manifest,
                    dcp::Manifest& manifest) {
  Sha256 digest;
  std::uint64_t at = 0;
  dcp::encode_metadata(catalog, meta, {}, [&](std::span<const std::byte> piece) {
    if (with_manifest) digest.add(piece);
    file.write(at, piece);
    at += piece.size();
  });
  manifest.metadata_bytes = at;
  manifest.metadata_sha256 = digest.hex();
}

void write_manifest(File& file, const dcp::Manifest& manifest) {
  std::uint64_t at = 0;
  dcp::encode_manifest(manifest, [&](std::string_view piece) {
    file.write(at, as_bytes(piece));
    at += piece.size();
  });
}

void publish(OpenedSave& save, const WrittenByRank& written) {
  const SaveOptions& options = save.options;
  const Catalog catalog = located(save, written);
  const std::string& id = options.checkpoint_id.empty() ? save.directory : options.checkpoint_id;
  dcp::StorageMeta meta{id, new_save_id(), {}};
  if (options.manifest) meta.attributes.emplace_back(dcp::kManifestAttribute, dcp::kManifestName);
  dcp::Manifest manifest = manifest_of(save, written);
  manifest.save_id = meta.save_id;
  std::vector<dcp::DirectoryOutput::Write> beside;
  if (options.manifest) beside.push_back([&](File& file) { write_manifest(file, manifest); });
  if (options.companion)
    beside.push_back([&](File& file) { file.write(0, stored_object(options.companion->value)); });
  save.output->publish([&](File& file) { write_metadata(file, catalog, meta, options.manifest, manifest); },
                       beside, options.sync, save.report.warnings);
  save.report.tensors = catalog.tensors().size();
  save.report.objects = catalog.objects().size();
  save.report.files = catalog.files().size();
  for (const auto& rank : written)
    for (const WrittenItem& item : rank) save.report.written_bytes += item.byte_length;
}

}  // namespace

Bytes encode(std::span<const WrittenItem> items) {
  ByteWriter out;
  for (const WrittenItem& item : items) {
    out.write(item.byte_offset);
    out.write(item.byte_length);
    out.write(item.crc);
  }
  return out.take();
}

std::optional<Error> publish_save(OpenedSave& save, const std::vector<Bytes>& written_by_rank) {
  WrittenByRank written;
  for (const Bytes& bytes : written_by_rank) written.push_back(decode_written(bytes));
  try {
    publish(save, written);
  } catch (...) {
    if (!save.output->is_published()) throw;
    return current_error();
  }
  return std::nullopt;
}

Bytes encode_summary(const SaveReport& report) {
  ByteWriter out;
  for (const std::uint64_t number :
       {report.tensors, report.objects, report.files, report.written_bytes, report.peak_rss_bytes})
    out.write(number);
  out.write(report.plan_s);
  out.write(report.seconds);
  for (const std::string& warning : report.warnings) out.counted_text(warning);
  return out.take();
}

void decode_summary(std::span<const std::byte> bytes, SaveReport& report) {
  ByteReader in(bytes, "summary of a save");
  for (std::uint64_t* number :
       {&report.tensors, &report.objects, &report.files, &report.written_bytes, &report.peak_rss_bytes})
    *number = in.read<std::uint64_t>();
  report.plan_s = in.read<double>();
  report.seconds = in.read<double>();
  report.warnings.clear();
  while (!in.at_end()) report.warnings.emplace_back(in.counted_text());
}

}  // namespace cairn
