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
nlohmann::json megatron_facts(const Folder& folder) {
  auto json = nlohmann::json::parse(folder.head(kMegatronJson, kMostJson), nullptr, false);
  return json.is_object() && json.contains("sharded_backend") ? json : nlohmann::json();
}

// As Megatron writes it: {"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend":
// "torch", "common_backend_version": 1}.
void check_facts(const Folder& folder, const nlohmann::json& facts) {
  const auto& backend = facts["sharded_backend"];
  if (backend != kBackend) {
    fail(ErrorKind::unsupported, "{} is a Megatron checkpoint of the backend '{}': Cairn reads {} only",
         folder.path(), backend.is_string() ? escape_name(backend.get<std::string>()) : std::string("?"),
         kBackend);
  }
  for (const auto& [key, expected] : std::initializer_list<std::pair<const char*, nlohmann::json>>{
           {"sharded_backend_version", 1}, {"common_backend", "torch"}, {"common_backend_version", 1}}) {
    if (facts.contains(key) && facts[key] != expected)
      fail(ErrorKind::unsupported, "{}: {} is another than {}", folder.at(kMegatronJson), key,
           expected.dump());
  }
}

// A companion that is there and cannot be read is not one that is missing.
bool has_companion(const Folder& folder, std::string_view name) {
  if (!folder.has_name(name)) return false;
  if (!folder.has_file(name))
    fail(ErrorKind::not_found, "{}: a torch file expected, found none behind the name", folder.at(name));
  return true;
}

}  // namespace

bool is_megatron(const Folder& folder) { return !megatron_facts(folder).is_null(); }

std::optional<Companion> companion_of(const Folder& folder) {
  const auto facts = megatron_facts(folder);
  if (!facts.is_null()) check_facts(folder, facts);
  const bool lightning = has_companion(folder, kLightningFile);
  if (has_companion(folder, kMegatronFile)) {
    if (lightning) {
      fail(ErrorKind::mismatch, "{} holds Lightning's {} and Megatron's {}: one of them expected",
           folder.path(), kLightningFile, kMegatronFile);
    }
    if (facts.is_null() && folder.has_name(kMegatronJson)) {
      fail_corrupt("{}: no JSON that names a sharded_backend, as Megatron's beside {} does",
                   folder.at(kMegatronJson), kMegatronFile);
    }
    return Companion{std::string(kMegatronFile), "megatron"};
  }
  if (!facts.is_null()) {
    fail(ErrorKind::not_found, "{} is a Megatron checkpoint whose {} is missing", folder.path(),
         kMegatronFile);
  }
  if (lightning) return Companion{std::string(kLightningFile), "lightning"};
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
