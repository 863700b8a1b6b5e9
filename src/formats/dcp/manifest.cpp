// SPDX-License-Identifier: BSD-3-Clause
#include "formats/dcp/manifest.hpp"

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/fail.hpp"

namespace cairn::dcp {
namespace {

constexpr int kVersion = 1;
constexpr std::size_t kPieceBytes = 64 << 10;

using Json = nlohmann::json;

std::uint32_t crc_from(const std::string& hex) {
  std::uint32_t crc = 0;
  const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), crc, 16);
  if (error != std::errc() || end != hex.data() + hex.size() || hex.size() != 8)
    fail_corrupt("'{}' where a CRC-32 of 8 hexadecimal digits is expected", hex.substr(0, 40));
  return crc;
}

std::uint64_t number(const Json& value) {
  if (!value.is_number_unsigned()) fail_corrupt("a number of bytes expected, {} found", value.type_name());
  return value.get<std::uint64_t>();
}

Manifest from_json(const Json& json) {
  const auto version = json.at(kManifestAttribute).get<std::int64_t>();
  if (version != kVersion) fail(ErrorKind::unsupported, "a manifest of version {}", version);
  Manifest out;
  out.save_id = json.at("save_id").get<std::string>();
  out.metadata_bytes = number(json.at("metadata").at("bytes"));
  out.metadata_sha256 = json.at("metadata").at("sha256").get<std::string>();
  for (const auto& [name, items] : json.at("files").get_ref<const Json::object_t&>()) {
    Manifest::ShardFile& file = out.files.emplace_back(name);
    for (const Json& item : items.get_ref<const Json::array_t&>())
      file.items.push_back({number(item.at(0)), number(item.at(1)), crc_from(item.at(2).get<std::string>())});
  }
  return out;
}

}  // namespace

void encode_manifest(const Manifest& manifest, const std::function<void(std::string_view)>& sink) {
  std::string text = fmt::format(
      "{{\"{}\": {}, \"save_id\": {}, \"metadata\": {{\"bytes\": {}, \"sha256\": {}}},\n\"files\": {{",
      kManifestAttribute, kVersion, Json(manifest.save_id).dump(), manifest.metadata_bytes,
      Json(manifest.metadata_sha256).dump());
  const char* before_file = "\n";
  for (const Manifest::ShardFile& file : manifest.files) {
    text += fmt::format("{}{}: [", std::exchange(before_file, ",\n"), Json(file.name).dump());
    const char* before_item = "";
    for (const Manifest::Item& item : file.items) {
      text += fmt::format("{}[{}, {}, \"{:08x}\"]", std::exchange(before_item, ", "), item.byte_offset,
                          item.byte_length, item.crc);
      if (text.size() < kPieceBytes) continue;
      sink(text);
      text.clear();
    }
    text += ']';
  }
  text += "}}\n";
  sink(text);
}

Manifest decode_manifest(std::span<const std::byte> json, std::string_view where) {
  return with_context([&] { return std::string(where); },
                      [&] {
                        try {
                          const auto* begin = reinterpret_cast<const char*>(json.data());
                          return from_json(Json::parse(begin, begin + json.size()));
                        } catch (const Json::exception& error) {
                          fail_corrupt("no manifest: {}", error.what());
                        }
                      });
}

}  // namespace cairn::dcp
