// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include "base/text.hpp"
#include "commands/selection.hpp"

namespace cairn {
namespace {

std::string file_of(const Catalog& catalog, const StoredItem& item) {
  return item.file == kNoFile ? "-" : escape_name(catalog.files()[item.file]);
}

void print_chunk(StandardOutput& out, const Catalog& catalog, std::string_view head, std::string_view box,
                 const StoredItem& item) {
  out.write(fmt::format("{}\t{}\t{}\t{}\t{}\n", head, box, file_of(catalog, item), item.byte_offset,
                        item.byte_length));
}

}  // namespace

void print_entries(StandardOutput& out, const Selection& selection) {
  const auto& catalog = selection.listing.catalog;
  for (const auto& entry : selection.entries) {
    const auto name = escape_name(catalog.name(entry));
    if (!entry.is_tensor) {
      out.write(fmt::format("{}\tobject\t-\t{}\t1\n", name, catalog.objects()[entry.index].item.byte_length));
      continue;
    }
    const auto& tensor = catalog.tensors()[entry.index];
    out.write(fmt::format("{}\t{}\t{}\t{}\t{}\n", name, info(tensor.dtype).name,
                          to_string(catalog.shape(tensor)), catalog.byte_count(tensor), tensor.chunk_count));
  }
}

void print_shards(StandardOutput& out, const Selection& selection) {
  const auto& catalog = selection.listing.catalog;
  for (const auto& entry : selection.entries) {
    const auto name = escape_name(catalog.name(entry));
    if (!entry.is_tensor) {
      print_chunk(out, catalog, name + "\tobject", "-", catalog.objects()[entry.index].item);
      continue;
    }
    const auto& tensor = catalog.tensors()[entry.index];
    const auto head = fmt::format("{}\t{}", name, info(tensor.dtype).name);
    for (const auto& chunk : catalog.chunks(tensor)) {
      print_chunk(out, catalog, head, to_string(catalog.box(tensor, chunk)), chunk);
    }
  }
}

}  // namespace cairn
