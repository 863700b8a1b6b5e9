// SPDX-License-Identifier: BSD-3-Clause
// `cairn.manifest` beside `.metadata`: what a save wrote, with CRCs (docs/publishing.md). JSON. Local, pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::dcp {

/// The attribute of the Metadata object that announces a manifest; its value is the manifest's name.
inline constexpr std::string_view kManifestAttribute = "cairn_manifest";

struct Manifest {
  struct Item {
    std::uint64_t byte_offset, byte_length;
    std::uint32_t crc;  ///< CRC-32 of these bytes of the file

    friend bool operator==(const Item&, const Item&) = default;
  };
  struct ShardFile {
    std::string name;
    std::vector<Item> items;  ///< ascending
  };

  std::string save_id;  ///< that of the metadata it was written with
  std::uint64_t metadata_bytes = 0;
  std::string metadata_sha256;  ///< 64 hexadecimal digits
  std::vector<ShardFile> files;
};

/// In pieces of about 64 KiB to `sink`.
void encode_manifest(const Manifest& manifest, const std::function<void(std::string_view)>& sink);

/// Throws corrupt for what is no manifest, unsupported for one of a later version.
Manifest decode_manifest(std::span<const std::byte> json, std::string_view where);

}  // namespace cairn::dcp
