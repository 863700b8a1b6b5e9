// SPDX-License-Identifier: BSD-3-Clause
#include "formats/merged/whole_iteration.hpp"

#include <vector>

#include "formats/dcp/source.hpp"
#include "formats/merged/merged_catalog.hpp"

namespace cairn {

dcp::DecodedMetadata decode_iteration(FileSystem& files, const std::string& directory,
                                      std::span<const std::string> components, FaultList& faults) {
  dcp::DecodedMetadata whole;
  std::vector<Catalog> parts;
  for (const std::string& component : components) {
    auto metadata = dcp::decode_metadata_file(files, directory + "/" + component, faults);
    whole.metadata_bytes += metadata.metadata_bytes;
    whole.notes.insert(whole.notes.end(), metadata.notes.begin(), metadata.notes.end());
    parts.push_back(std::move(metadata.catalog));
  }
  MergedCatalog merged;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::uint32_t part = merged.add_part(parts[i], components[i] + "/");
    const PathStep key = merged.key(components[i]);
    for (const Entry& entry : parts[i].entries()) merged.add_under(part, entry, std::span(&key, 1));
  }
  whole.catalog = merged.take().catalog;
  return whole;
}

}  // namespace cairn
