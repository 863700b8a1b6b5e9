// SPDX-License-Identifier: BSD-3-Clause
// A checkpoint as a source: besides the chunks of its tensors, its objects. Local.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/byte_writer.hpp"
#include "base/text.hpp"
#include "formats/record_content.hpp"
#include "formats/source.hpp"
#include "pickle/value.hpp"

namespace cairn {

/// A key of a dict that is an int, where the format tells it from the text that names are made of.
struct IntegerKey {
  StringId text;
  std::int64_t value;
};

class CheckpointSource : public Source {
 public:
  /// The value of an object of catalog(), read into `arena`. The persistent nodes under it carry the source's
  /// own storage ids. Of one object after the other, by one thread, where the checkpoint was opened (not
  /// where it was decoded); likewise find_storage. An arena that is passed here lives as long as objects are
  /// asked for: by its address the source knows what it has read into it.
  virtual pickle::Value read_object(pickle::Arena& arena, const ObjectInfo& object) = 0;
  /// Where a storage inside an object lies, as bytes of a file. `id` is the value under a persistent node of
  /// it.
  virtual RecordContent find_storage(const pickle::Arena& arena, pickle::Value id,
                                     const ObjectInfo& object) = 0;

  /// Keys in the paths of the catalogue that were ints; ascending by text.
  virtual std::span<const IntegerKey> integer_keys() const { return {}; }

  /// What a file of the catalogue, or an expanded item, is called in messages.
  virtual std::string file_text(std::uint32_t file) const { return escape_name(catalog().files()[file]); }

  /// For the wire: what other ranks need to read the chunks.
  virtual Bytes encode() const = 0;
};

}  // namespace cairn
