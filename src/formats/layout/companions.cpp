// SPDX-License-Identifier: BSD-3-Clause
#include "formats/layout/companions.hpp"

#include <nlohmann/json.hpp>

#include "base/fail.hpp"
#include "base/text.hpp"

namespace cairn::layout {
namespace {

constexpr std::size_t kMostJson = 64 << 10;
constexpr std::string_view kBackend = "torch_dist";

// nullopt: no Megatron file.
std::optional<std::string> backend_of(const Folder& folder) {
  const auto json = nlohmann::json::parse(folder.head(kMegatronJson, kMostJson), nullptr, false);
  if (!json.is_object() || !json.contains("sharded_backend")) return std::nullopt;
  const auto& backend = json["sharded_backend"];
  return backend.is_string() ? backend.get<std::string>() : std::string();
}

}  // namespace

bool is_megatron(const Folder& folder) { return backend_of(folder).has_value(); }

std::optional<Companion> companion_of(const Folder& folder) {
  const auto backend = backend_of(folder);
  if (backend && *backend != kBackend) {
    fail(ErrorKind::unsupported, "{} is a Megatron checkpoint of the backend '{}': Cairn reads {} only",
         folder.path(), escape_name(*backend), kBackend);
  }
  if (folder.has_file(kMegatronFile)) return Companion{std::string(kMegatronFile), "megatron"};
  if (backend) {
    fail(ErrorKind::not_found, "{} is a Megatron checkpoint whose {} is missing", folder.path(),
         kMegatronFile);
  }
  if (folder.has_file(kLightningFile)) return Companion{std::string(kLightningFile), "lightning"};
  return std::nullopt;
}

std::vector<std::string> companion_files(const Folder& folder) {
  const auto companion = companion_of(folder);
  if (!companion) return {};
  std::vector<std::string> files{companion->name};
  if (is_megatron(folder)) files.emplace_back(kMegatronJson);
  return files;
}

}  // namespace cairn::layout
