// SPDX-License-Identifier: BSD-3-Clause
// A torch file as a source: read by range, its zip directory and its pickle first. Local.
//
// Every tensor is one chunk, a view of the storage that it lies in; storages may be shared. The stored item
// of a chunk is its storage's record, header and payload. Objects lie in the pickle: they have no bytes of
// their own.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/storage.hpp"
#include "formats/checkpoint_source.hpp"
#include "formats/chunk_places.hpp"
#include "formats/source_files.hpp"
#include "formats/torch_file/flat_state.hpp"

namespace cairn::torch_file {

class FileSource final : public CheckpointSource {
 public:
  /// Opens `file` in `directory`. Throws unsupported for what is recognised and not read: TorchScript
  /// archives, big-endian data, compressed records, values that are no dict of names (torch_file/flat_state),
  /// tensors that are no plain view (torch_file/tensor_value); corrupt for damage. `files` outlives the
  /// source.
  FileSource(FileSystem& files, std::string directory, std::string file, EmptyDicts empty_dicts);
  /// What encode() wrote; throws corrupt on anything else. Without objects.
  FileSource(FileSystem& files, std::string directory, std::span<const std::byte> encoded);
  ~FileSource() override;

  const Catalog& catalog() const override { return catalog_; }
  std::optional<FileRange> small_item(std::uint64_t chunk) const override;
  std::unique_ptr<ItemLocator> item_locator() override;
  std::shared_ptr<const ChunkPlace> locate(const TensorInfo& tensor, std::uint64_t chunk) override;
  void read(std::uint32_t file, std::uint64_t byte_offset, std::span<std::byte> into) override;
  std::uint64_t copy(std::uint32_t file, std::uint64_t byte_offset, std::uint64_t bytes, File& output,
                     std::uint64_t output_offset) override;
  std::uint64_t read_bytes() const override { return files_.read_bytes(); }

  pickle::Value read_object(pickle::Arena& arena, const ObjectInfo& object) override;
  RecordContent find_storage(const pickle::Arena& arena, pickle::Value id, const ObjectInfo& object) override;
  std::span<const IntegerKey> integer_keys() const override { return integer_keys_; }
  Bytes encode() const override;

  /// Of data.pkl.
  std::uint64_t pickle_bytes() const { return pickle_bytes_; }
  /// Sentences about what flattening leaves out.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  class Locator;
  class Opening;
  struct Opened;

  // A record that tensors lie in.
  struct Storage {
    std::uint64_t header_offset, end;  // up to the next record
    std::uint64_t bytes;
    std::uint64_t name_at;
    std::uint32_t name_bytes;
    std::uint32_t crc;
  };
  // Of the tensor of the same index.
  struct View {
    std::uint64_t storage;
    std::int64_t offset;  // in elements
    std::uint64_t strides_at;
  };

  std::string_view name(const Storage& storage) const {
    return std::string_view(names_).substr(storage.name_at, storage.name_bytes);
  }
  std::string describe(const Storage& storage) const;
  ChunkPlace place(const TensorInfo& tensor, std::uint64_t chunk, std::uint64_t payload) const;

  SourceFiles files_;
  Catalog catalog_;
  std::vector<Storage> storages_;
  std::vector<View> views_;
  std::vector<std::int64_t> strides_;
  std::string names_;  // of storages, with the archive's
  ChunkPlaces places_;

  // where it was opened
  std::vector<IntegerKey> integer_keys_;
  std::vector<std::string> notes_;
  std::uint64_t pickle_bytes_ = 0;
  std::unique_ptr<Opened> opened_;
};

}  // namespace cairn::torch_file
