// SPDX-License-Identifier: BSD-3-Clause
#include <utility>

#include "cairn/checkpoint.hpp"
#include "formats/dcp/source.hpp"
#include "formats/layouts.hpp"
#include "formats/torch_file/source.hpp"

namespace cairn {
namespace {

Listing list_torch_file(FileSystem& files, const Located& located) {
  const auto [directory, name] = place_of(located.path);
  const torch_file::FileSource source(files, directory, name, torch_file::EmptyDicts::drop);
  return {located.format, source.catalog(), {}};
}

Listing list_safetensors(FileSystem& files, const Located& located) {
  FaultList faults;
  auto contents = safetensors::read_contents(files, site_of(files, located), faults);
  faults.throw_if_any(located.path);
  return {located.format, std::move(contents.catalog), std::move(contents.notes)};
}

}  // namespace

Listing list_checkpoint(FileSystem& files, const std::string& path) {
  auto located = locate_checkpoint(files, path);
  if (located.kind == Located::Kind::torch_file) return list_torch_file(files, located);
  if (located.kind != Located::Kind::dcp) return list_safetensors(files, located);
  FaultList faults;
  auto metadata = dcp::decode_metadata_file(files, located.path, faults);
  faults.throw_if_any(located.path);
  Listing listing{std::move(located.format), std::move(metadata.catalog), std::move(metadata.notes)};
  if (!located.note.empty()) listing.notes.insert(listing.notes.begin(), std::move(located.note));
  return listing;
}

}  // namespace cairn
