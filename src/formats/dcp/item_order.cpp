// SPDX-License-Identifier: BSD-3-Clause
#include "formats/dcp/item_order.hpp"

#include <algorithm>
#include <limits>
#include <span>

#include "base/fail.hpp"
#include "base/text.hpp"

namespace cairn::dcp {
namespace {

std::span<const StoredItem> items_of(const Catalog& catalog, const Entry& entry) {
  if (entry.is_tensor) return catalog.chunks(catalog.tensors()[entry.index]);
  return {&catalog.objects()[entry.index].item, 1};
}

// Calls act(ref, item) for every item that has a file, in the order of the entries.
template <class Do>
void for_each_item(const Catalog& catalog, const Do& act) {
  for (std::uint32_t entry = 0; entry < catalog.entries().size(); ++entry) {
    const auto items = items_of(catalog, catalog.entries()[entry]);
    for (std::uint32_t position = 0; position < items.size(); ++position) {
      if (items[position].file != kNoFile) act(ItemRef{entry, position}, items[position]);
    }
  }
}

void check_counts(const Catalog& catalog) {
  for (const TensorInfo& tensor : catalog.tensors()) {
    if (tensor.chunk_count > std::numeric_limits<std::uint32_t>::max()) {
      fail(ErrorKind::unsupported, "'{}' has {} chunks", escape_name(catalog.name(tensor)),
           tensor.chunk_count);
    }
  }
}

}  // namespace

const StoredItem& stored_item(const Catalog& catalog, ItemRef ref) {
  return items_of(catalog, catalog.entries()[ref.entry])[ref.position];
}

std::vector<ItemRef> items_by_place(const Catalog& catalog) {
  check_counts(catalog);
  std::vector<std::uint64_t> ends(catalog.files().size() + 1);
  for_each_item(catalog, [&](ItemRef, const StoredItem& item) { ++ends[item.file + 1]; });
  for (std::size_t file = 1; file < ends.size(); ++file) ends[file] += ends[file - 1];
  std::vector<ItemRef> refs(ends.back());
  std::vector<std::uint64_t> next(ends.begin(), ends.end() - 1), reached(next.size());
  std::vector<bool> ascending(next.size(), true);
  for_each_item(catalog, [&](ItemRef ref, const StoredItem& item) {
    refs[next[item.file]++] = ref;
    if (item.byte_offset < reached[item.file]) ascending[item.file] = false;
    reached[item.file] = item.byte_offset;
  });
  for (std::size_t file = 0; file < next.size(); ++file) {
    if (ascending[file]) continue;
    std::ranges::stable_sort(std::span(refs).subspan(ends[file], ends[file + 1] - ends[file]), {},
                             [&](ItemRef ref) { return stored_item(catalog, ref).byte_offset; });
  }
  return refs;
}

}  // namespace cairn::dcp
