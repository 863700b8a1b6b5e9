// SPDX-License-Identifier: BSD-3-Clause
// The verbs that read metadata only.
#include <algorithm>
#include <unordered_set>

#include "base/fail.hpp"
#include "base/text.hpp"
#include "cairn/checkpoint.hpp"
#include "formats/dcp/source.hpp"
#include "formats/layouts.hpp"

namespace cairn {
namespace {

void warn_of_orphans(FileSystem& files, const std::string& directory, const Catalog& catalog,
                     std::vector<std::string>& warnings) {
  const std::unordered_set<std::string> known(catalog.files().begin(), catalog.files().end());
  for (const auto& name : files.list(directory)) {
    if (!name.ends_with(".distcp") || known.contains(name)) continue;
    const auto status = files.status(directory + "/" + name);
    if (status && status->size > 0) {
      warnings.push_back(
          fmt::format("{}/{}: a shard file that nothing refers to", directory, escape_name(name)));
    }
  }
  if (files.status(directory + "/.metadata.tmp")) {
    warnings.push_back(fmt::format("{}/.metadata.tmp: left by a save that did not finish", directory));
  }
}

}  // namespace

Listing list_checkpoint(FileSystem& files, const std::string& path) {
  const std::string directory = require_dcp_directory(files, path);
  FaultList faults;
  auto metadata = dcp::decode_metadata_file(files, directory, faults);
  faults.throw_if_any(directory);
  return {"dcp", std::move(metadata.catalog), std::move(metadata.notes)};
}

VerifyReport verify_structure(FileSystem& files, const std::string& path) {
  const std::string directory = require_dcp_directory(files, path);
  VerifyReport report;
  const auto metadata = dcp::read_metadata(files, directory, report.faults);
  const Catalog& catalog = metadata.catalog;
  report.tensors = catalog.tensors().size();
  report.objects = catalog.objects().size();
  report.chunks = catalog.chunks().size();
  report.files = catalog.files().size();
  for (const TensorInfo& tensor : catalog.tensors()) report.payload_bytes += catalog.byte_count(tensor);
  report.warnings = metadata.notes;
  warn_of_orphans(files, directory, catalog, report.warnings);
  return report;
}

}  // namespace cairn
