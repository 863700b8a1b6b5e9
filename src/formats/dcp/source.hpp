// SPDX-License-Identifier: BSD-3-Clause
// A DCP directory as a source.
#pragma once

#include <memory>
#include <string>

#include "cairn/storage.hpp"
#include "formats/checkpoint_source.hpp"
#include "formats/chunk_places.hpp"
#include "formats/dcp/expanded_items.hpp"
#include "formats/dcp/item.hpp"
#include "formats/dcp/metadata_decoder.hpp"
#include "formats/source_files.hpp"

namespace cairn::dcp {

/// Items up to this size are read whole, head and payload in one request.
inline constexpr std::uint64_t kSmallItemBytes = 64 << 10;

class DirectorySource : public CheckpointSource {
 public:
  /// Local. Opens nothing yet. `files` outlives the source.
  DirectorySource(FileSystem& files, std::string directory, Catalog catalog);
  ~DirectorySource() override;

  const Catalog& catalog() const override { return catalog_; }
  std::optional<FileRange> small_item(std::uint64_t chunk) const override;
  std::unique_ptr<ItemLocator> item_locator() override;
  std::shared_ptr<const ChunkPlace> locate(const TensorInfo& tensor, std::uint64_t chunk) override;
  void read(std::uint32_t file, std::uint64_t byte_offset, std::span<std::byte> into) override;
  std::uint64_t copy(std::uint32_t file, std::uint64_t byte_offset, std::uint64_t bytes, File& output,
                     std::uint64_t output_offset) override;
  std::uint64_t read_bytes() const override { return files_.read_bytes(); }

  /// The bytes of an object's item, expanded.
  Bytes object_bytes(const ObjectInfo& object);
  /// See dcp/item.hpp.
  pickle::Value read_object(pickle::Arena& arena, const ObjectInfo& object) override;
  RecordContent find_storage(const pickle::Arena& arena, pickle::Value id, const ObjectInfo& object) override;
  std::string file_text(std::uint32_t file) const override;
  /// The catalogue.
  Bytes encode() const override { return catalog_.encode(); }

 private:
  // An item as it is read: expanded, if it is compressed.
  struct Place {
    std::uint32_t file;
    std::uint64_t byte_offset, bytes;
  };
  class ItemReader;
  class Locator;
  struct OpenObject;
  Place place_of(const StoredItem& item, std::uint64_t number);
  std::uint64_t number_of(const ObjectInfo& object) const;
  ExpandedItems::Stored find_stored(std::uint64_t number);
  std::string describe_number(std::uint64_t number) const;
  const ObjectItem& open(const ObjectInfo& object);
  void set_place(const TensorInfo& tensor, const StoredItem& chunk, const Place& item, const ItemHead& head,
                 ChunkPlace& place) const;
  std::string describe(std::string_view name, const StoredItem& item) const;

  Catalog catalog_;
  SourceFiles files_;
  ExpandedItems expanded_;  // by the chunk's number; objects come after the chunks
  std::unique_ptr<OpenObject> open_object_;
  ChunkPlaces places_;
};

/// `.metadata` of a directory, decoded only.
DecodedMetadata decode_metadata_file(FileSystem& files, const std::string& directory, FaultList& faults);

/// The same, then checked: chunks tile their tensors, one stat a shard, every item inside its file. Reads no
/// payload. Faults go into `faults`; both throw when the metadata cannot be read at all.
DecodedMetadata read_metadata(FileSystem& files, const std::string& directory, FaultList& faults);

}  // namespace cairn::dcp
