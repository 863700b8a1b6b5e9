// SPDX-License-Identifier: BSD-3-Clause
// Comparing what was read with the CRCs that the source carries. Local.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/crc_pieces.hpp"
#include "formats/source.hpp"

namespace cairn {

/// The tensor that a chunk belongs to.
const TensorInfo& tensor_of_chunk(const Catalog& catalog, std::uint64_t chunk);

/// Throws corrupt, naming tensor, chunk, file and offset, when the chunk's storage has another CRC than
/// `found`.
void compare_storage(const Catalog& catalog, const TensorInfo& tensor, std::uint64_t chunk,
                     const ChunkPlace& place, std::uint32_t found);

/// Joined pieces of storages: those that cover a whole storage are compared with its CRC and taken out,
/// `verified` counts their bytes; what is left belongs to storages that others read the rest of. Throws as
/// compare_storage does.
std::vector<CrcPiece> compare_storages(Source& source, std::vector<CrcPiece> pieces,
                                       std::uint64_t& verified_bytes);

}  // namespace cairn
