// SPDX-License-Identifier: BSD-3-Clause
// The items of a catalogue in the order in which they lie in their files. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "cairn/metadata.hpp"

namespace cairn::dcp {

/// A chunk of a tensor, or an object.
struct ItemRef {
  std::uint32_t entry;     ///< index into catalog.entries()
  std::uint32_t position;  ///< of the chunk among its tensor's; 0 for an object
};

const StoredItem& stored_item(const Catalog& catalog, ItemRef ref);

/// All items that have a file: by file, as the catalogue numbers them, then by byte offset. Throws
/// unsupported for a tensor of more than 2^32 chunks.
std::vector<ItemRef> items_by_place(const Catalog& catalog);

}  // namespace cairn::dcp
