// SPDX-License-Identifier: BSD-3-Clause
#include <utility>

#include "cairn/checkpoint.hpp"
#include "formats/dcp/source.hpp"
#include "formats/layouts.hpp"

namespace cairn {

Listing list_checkpoint(FileSystem& files, const std::string& path) {
  auto located = locate_checkpoint(files, path);
  FaultList faults;
  auto metadata = dcp::decode_metadata_file(files, located.path, faults);
  faults.throw_if_any(located.path);
  Listing listing{std::move(located.format), std::move(metadata.catalog), std::move(metadata.notes)};
  if (!located.note.empty()) listing.notes.insert(listing.notes.begin(), std::move(located.note));
  return listing;
}

}  // namespace cairn
