// SPDX-License-Identifier: BSD-3-Clause
// data.pkl of a torch file made from a catalogue: what torch.save would pickle for the state dict that
// dcp_to_torch_save rebuilds (docs/format-torch-file.md). Pure but for what the callback reads.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/byte_writer.hpp"
#include "cairn/metadata.hpp"
#include "formats/checkpoint_source.hpp"
#include "formats/record_content.hpp"
#include "pickle/value.hpp"

namespace cairn::torch_file {

/// The part of a catalogue that makes up one file.
struct StateShape {
  std::vector<std::uint32_t> entries;  ///< indices into catalog.entries(), ascending
  bool flat = false;                   ///< names as keys, instead of the recorded nesting
  /// Keys of paths that are to be ints; ascending by text.
  std::span<const IntegerKey> integer_keys = {};
};

struct StatePickle {
  Bytes pickle;
  std::vector<RecordContent> storages;  ///< record data/<index>
};

/// Where the storage lies that a persistent node of an object (index into catalog.objects()) names.
using FindStorage = std::function<RecordContent(std::uint32_t object, pickle::Value id)>;

/// Pickles the state as if the catalogue held the shape's entries only. `objects` has a value for each object
/// of the catalogue, in `arena`; those of other entries are not looked at. Storages are numbered in pickling
/// order; storages that an object shares stay shared. Throws corrupt for paths that collide. `max_padding`:
/// see StateTree.
StatePickle pickle_state(const Catalog& catalog, const StateShape& shape, pickle::Arena& arena,
                         const std::vector<pickle::Value>& objects, std::uint64_t max_padding,
                         const FindStorage& find_storage);

/// What torch.save makes of one object, `value` in `arena`, which is of the catalogue's number `object`.
StatePickle pickle_object(const Catalog& catalog, pickle::Arena& arena, std::uint32_t object,
                          pickle::Value value, const FindStorage& find_storage);

}  // namespace cairn::torch_file
