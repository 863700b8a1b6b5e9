// SPDX-License-Identifier: BSD-3-Clause
// What a load reads from, whatever the format. Local.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/byte_writer.hpp"
#include "cairn/metadata.hpp"
#include "cairn/storage.hpp"
#include "formats/source.hpp"
#include "storage/read_pin.hpp"

namespace cairn {

class LoadSource {
 public:
  virtual ~LoadSource() = default;
  virtual Source& chunks() = 0;
  /// The bytes that torch.save makes, or made, of an object's value.
  virtual Bytes object_item(const ObjectInfo& object) = 0;
  /// The object and its place, for messages.
  virtual std::string describe(const ObjectInfo& object) = 0;
  /// Whether object_item() works on all ranks; else where the source was opened only.
  virtual bool has_objects_everywhere() const = 0;
  /// For the wire.
  virtual Bytes encode() const = 0;
};

struct OpenedSource {
  std::unique_ptr<LoadSource> source;
  std::vector<std::string> notes;
  ReadPin pin;  ///< of a directory
};

/// The coordinator: finds the checkpoint at `path` (formats/layouts), reads its catalogue and checks it.
/// Shards that are missing or too short may come late, for so many seconds; they are read through `shards`.
/// Throws as locate_checkpoint, and corrupt with the faults found. `shards` outlives the source.
OpenedSource open_load_source(FileSystem& files, FileSystem& shards, const std::string& path,
                              double timeout_s);

/// Another rank: from what encode() gave. `shards` outlives the source.
std::unique_ptr<LoadSource> decode_load_source(FileSystem& shards, std::span<const std::byte> encoded);

}  // namespace cairn
