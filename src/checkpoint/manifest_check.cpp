// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/manifest_check.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/fail.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "formats/dcp/directory_output.hpp"
#include "formats/dcp/manifest.hpp"

namespace cairn {
namespace {

constexpr std::uint64_t kPieceBytes = 1 << 20;

class ManifestCheck {
 public:
  ManifestCheck(FileSystem& files, const std::string& directory, const dcp::DecodedMetadata& metadata,
                FaultList& faults)
      : files_(files), directory_(directory), metadata_(metadata), faults_(faults) {}

  std::vector<ManifestCrc> compare(const dcp::Manifest& manifest) {
    compare_metadata(manifest);
    std::vector<Place> told = places_of(manifest), known = places_of(metadata_.catalog);
    report(known, told, "the manifest does not know it");
    report(told, known, "only the manifest knows it");
    std::vector<ManifestCrc> crcs;
    for (const Place& place : told) crcs.push_back({place.file, place.crc, place.byte_offset});
    return crcs;
  }

 private:
  struct Place {
    std::uint32_t file;
    std::uint64_t byte_offset, byte_length;
    std::uint32_t crc = 0;

    auto key() const { return std::tuple(file, byte_offset, byte_length); }
  };

  void compare_metadata(const dcp::Manifest& manifest) {
    const auto file = files_.open_read(directory_ + "/" + std::string(dcp::kMetadataName));
    const std::uint64_t size = file->size();
    Sha256 digest;
    std::vector<std::byte> piece(kPieceBytes);
    for (std::uint64_t at = 0; at < size; at += piece.size()) {
      piece.resize(std::min<std::uint64_t>(kPieceBytes, size - at));
      file->read(at, piece);
      digest.add(piece);
    }
    const std::string found = digest.hex();
    if (size == manifest.metadata_bytes && found == manifest.metadata_sha256) return;
    fault(FaultKind::crc, std::string(dcp::kMetadataName), 0,
          fmt::format("{} bytes with SHA-256 {}, the manifest says {} with {}", size, found,
                      manifest.metadata_bytes, escape_name(manifest.metadata_sha256)));
  }

  std::vector<Place> places_of(const dcp::Manifest& manifest) {
    std::map<std::string_view, std::uint32_t> numbers;
    const auto names = metadata_.catalog.files();
    for (std::uint32_t i = 0; i < names.size(); ++i) numbers.emplace(names[i], i);
    std::vector<Place> places;
    for (const auto& file : manifest.files) {
      const auto known = numbers.find(file.name);
      if (known == numbers.end() && !file.items.empty()) {
        fault(FaultKind::storage_data, file.name, 0,
              fmt::format("the manifest has {} items in it, the metadata none", file.items.size()));
      }
      if (known == numbers.end()) continue;
      for (const auto& item : file.items)
        places.push_back({known->second, item.byte_offset, item.byte_length, item.crc});
    }
    std::ranges::sort(places, {}, &Place::key);
    return places;
  }

  static std::vector<Place> places_of(const Catalog& catalog) {
    std::vector<Place> places;
    const auto add = [&](const StoredItem& item) {
      if (item.file != kNoFile) places.push_back({item.file, item.byte_offset, item.byte_length});
    };
    std::ranges::for_each(catalog.chunks(), add);
    for (const ObjectInfo& object : catalog.objects()) add(object.item);
    std::ranges::sort(places, {}, &Place::key);
    return places;
  }

  // Those that the others have not.
  void report(const std::vector<Place>& some, const std::vector<Place>& others, std::string_view what) {
    for (const Place& place : some) {
      if (faults_.full() || std::ranges::binary_search(others, place.key(), {}, &Place::key)) continue;
      fault(FaultKind::storage_data, metadata_.catalog.files()[place.file], place.byte_offset,
            fmt::format("an item of {} bytes at byte {}: {}", place.byte_length, place.byte_offset, what));
    }
  }

  void fault(FaultKind kind, const std::string& file, std::uint64_t byte_offset, const std::string& text) {
    faults_.add({kind, {}, file, byte_offset, fmt::format("{}: {}", escape_name(file), text)});
  }

  FileSystem& files_;
  const std::string& directory_;
  const dcp::DecodedMetadata& metadata_;
  FaultList& faults_;
};

Bytes read_whole(FileSystem& files, const std::string& path) {
  const auto file = files.open_read(path);
  Bytes bytes(file->size());
  file->read(0, bytes);
  return bytes;
}

}  // namespace

std::vector<ManifestCrc> check_manifest(FileSystem& files, const std::string& directory,
                                        const dcp::DecodedMetadata& metadata, FaultList& faults,
                                        std::vector<std::string>& warnings) {
  const std::string name(dcp::kManifestName), path = directory + "/" + name;
  const auto warn = [&](std::string_view text) { warnings.push_back(fmt::format("{}: {}", path, text)); };
  const bool is_there = files.status(path).has_value(), is_announced = !metadata.manifest.empty();
  if (is_announced && !is_there) warn("the metadata announces it, and it is missing");
  if (!is_announced && is_there) warn("the metadata does not know of it; it is not used");
  if (!is_announced || !is_there) return {};
  try {
    const dcp::Manifest manifest = dcp::decode_manifest(read_whole(files, path), path);
    if (manifest.save_id == metadata.save_id)
      return ManifestCheck(files, directory, metadata, faults).compare(manifest);
    warn("it belongs to another save, which was not published; it is not used");
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::unsupported) {
      warn(error.message());
    } else {
      if (error.kind() != ErrorKind::corrupt) throw;
      faults.add({FaultKind::header, {}, name, 0, error.message()});
    }
  }
  return {};
}

}  // namespace cairn
