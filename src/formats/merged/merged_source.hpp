// SPDX-License-Identifier: BSD-3-Clause
// The shards of a DCP directory and a torch file beside them as one source: Lightning's folders (meta.pt),
// Megatron's (common.pt). Local.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/checkpoint_source.hpp"
#include "formats/dcp/source.hpp"
#include "formats/merged/merge_rules.hpp"
#include "formats/torch_file/source.hpp"

namespace cairn {

class MergedSource final : public CheckpointSource {
 public:
  /// Throws what merge_parts() throws.
  MergedSource(std::unique_ptr<dcp::DirectorySource> shards, std::unique_ptr<torch_file::FileSource> file,
               MergeRule rule);
  /// What encode() wrote; throws corrupt on anything else. `files` outlives the source.
  static std::unique_ptr<MergedSource> decode(FileSystem& files, const std::string& directory,
                                              std::span<const std::byte> encoded);

  const Catalog& catalog() const override { return made_.catalog; }
  std::optional<FileRange> small_item(std::uint64_t chunk) const override;
  std::unique_ptr<ItemLocator> item_locator() override;
  std::shared_ptr<const ChunkPlace> locate(const TensorInfo& tensor, std::uint64_t chunk) override;
  void read(std::uint32_t file, std::uint64_t byte_offset, std::span<std::byte> into) override;
  std::uint64_t copy(std::uint32_t file, std::uint64_t byte_offset, std::uint64_t bytes, File& output,
                     std::uint64_t output_offset) override;
  std::uint64_t read_bytes() const override { return shards_->read_bytes() + file_->read_bytes(); }

  pickle::Value read_object(pickle::Arena& arena, const ObjectInfo& object) override;
  RecordContent find_storage(const pickle::Arena& arena, pickle::Value id, const ObjectInfo& object) override;
  std::span<const IntegerKey> integer_keys() const override { return integer_keys_; }
  std::string file_text(std::uint32_t file) const override {
    return file < kFirstExpanded ? CheckpointSource::file_text(file) : shards_->file_text(file);
  }
  Bytes encode() const override;

  /// Sentences about what was left out or kept.
  const std::vector<std::string>& notes() const { return notes_; }

  /// The object in the file, or nullptr where it lies in the shards.
  const ObjectInfo* object_of_file(const ObjectInfo& object) const;
  torch_file::FileSource& file() { return *file_; }
  /// Of an object in the shards, as DirectorySource::object_bytes.
  Bytes object_bytes(const ObjectInfo& object) { return shards_->object_bytes(object_of_part(object)); }

 private:
  class Locator;
  static constexpr std::uint32_t kShards = 0, kFile = 1;
  using Origin = MergedCatalog::Origin;

  CheckpointSource& part(std::uint32_t number) const;
  const Origin& origin(const ObjectInfo& object) const {
    return made_.objects[static_cast<std::size_t>(&object - made_.catalog.objects().data())];
  }
  const TensorInfo& tensor_of_part(const TensorInfo& tensor) const;
  const ObjectInfo& object_of_part(const ObjectInfo& object) const;
  void list_part_chunks();
  void take_up_keys();
  std::uint32_t part_of_file(std::uint32_t file) const {
    return file < made_.first_files[kFile] || file >= kFirstExpanded ? kShards : kFile;
  }
  std::uint32_t part_of_chunk(std::uint64_t chunk) const {
    return part_of_file(made_.catalog.chunks()[chunk].file);
  }

  std::unique_ptr<dcp::DirectorySource> shards_;
  std::unique_ptr<torch_file::FileSource> file_;
  MergeRule rule_;
  MergedCatalog::Made made_;
  std::vector<std::string> notes_;
  std::vector<IntegerKey> integer_keys_;
  std::vector<std::uint64_t> part_chunks_;  // of each chunk: its index in its part
  ChunkPlaces places_;                      // of the file's chunks, in the files of both
};

}  // namespace cairn
