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
  auto located = locate_checkpoint(files, path);
  FaultList faults;
  auto metadata = dcp::decode_metadata_file(files, located.path, faults);
  faults.throw_if_any(located.path);
  Listing listing{std::move(located.format), std::move(metadata.catalog), std::move(metadata.notes)};
  if (!located.note.empty()) listing.notes.insert(listing.notes.begin(), std::move(located.note));
  return listing;
}

VerifyReport verify_structure(FileSystem& files, const std::string& path) {
  VerifyReport report;
  for (const Located& part : locate_for_verify(files, path)) {
    if (part.kind != Located::Kind::dcp) {
      fail(ErrorKind::unsupported, "{}: only the structure of DCP directories is checked so far", part.path);
    }
    const auto metadata = dcp::read_metadata(files, part.path, report.faults);
    const Catalog& catalog = metadata.catalog;
    report.tensors += catalog.tensors().size();
    report.objects += catalog.objects().size();
    report.chunks += catalog.chunks().size();
    report.files += catalog.files().size();
    for (const TensorInfo& tensor : catalog.tensors()) report.payload_bytes += catalog.byte_count(tensor);
    if (!part.note.empty()) report.warnings.push_back(part.note);
    report.warnings.insert(report.warnings.end(), metadata.notes.begin(), metadata.notes.end());
    warn_of_orphans(files, part.path, catalog, report.warnings);
  }
  return report;
}

}  // namespace cairn
