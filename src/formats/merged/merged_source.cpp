// SPDX-License-Identifier: BSD-3-Clause
#include "formats/merged/merged_source.hpp"

#include <algorithm>

#include "base/byte_reader.hpp"
#include "base/fail.hpp"

namespace cairn {

MergedSource::MergedSource(std::unique_ptr<dcp::DirectorySource> shards,
                           std::unique_ptr<torch_file::FileSource> file, MergeRule rule)
    : shards_(std::move(shards)), file_(std::move(file)), rule_(rule) {
  MergedParts parts = merge_parts(shards_->catalog(), file_->catalog(), rule);
  made_ = std::move(parts.made);
  notes_ = std::move(parts.notes);
  list_part_chunks();
  take_up_keys();
}

void MergedSource::list_part_chunks() {
  part_chunks_.reserve(made_.catalog.chunks().size());
  for (const TensorInfo& tensor : made_.catalog.tensors()) {
    const TensorInfo& stored = tensor_of_part(tensor);
    for (std::uint64_t i = 0; i < stored.chunk_count; ++i) part_chunks_.push_back(stored.first_chunk + i);
  }
}

void MergedSource::take_up_keys() {
  for (const IntegerKey& key : file_->integer_keys()) {
    const StringId text = made_.strings[kFile][key.text];
    if (text != MergedCatalog::kNoString) integer_keys_.push_back({text, key.value});
  }
  std::ranges::sort(integer_keys_, {}, &IntegerKey::text);
}

CheckpointSource& MergedSource::part(std::uint32_t number) const {
  if (number == kShards) return *shards_;
  return *file_;
}

const TensorInfo& MergedSource::tensor_of_part(const TensorInfo& tensor) const {
  const auto& origin = made_.tensors[static_cast<std::size_t>(&tensor - made_.catalog.tensors().data())];
  return part(origin.part).catalog().tensors()[origin.index];
}

const ObjectInfo& MergedSource::object_of_part(const ObjectInfo& object) const {
  return part(origin(object).part).catalog().objects()[origin(object).index];
}

const ObjectInfo* MergedSource::object_of_file(const ObjectInfo& object) const {
  return origin(object).part == kFile ? &object_of_part(object) : nullptr;
}

// --- chunks -----------------------------------------------------------------------------------------------

std::optional<FileRange> MergedSource::small_item(std::uint64_t chunk) const {
  const std::uint32_t number = part_of_chunk(chunk);
  auto item = part(number).small_item(part_chunks_[chunk]);
  if (item) item->file += made_.first_files[number];
  return item;
}

class MergedSource::Locator final : public ItemLocator {
 public:
  explicit Locator(const MergedSource& source)
      : source_(source), shards_(source.shards_->item_locator()), file_(source.file_->item_locator()) {}

  const ChunkPlace& locate(const TensorInfo& tensor, std::uint64_t chunk,
                           std::span<const std::byte> item) override {
    const std::uint32_t number = source_.part_of_chunk(chunk);
    ItemLocator& locator = number == kShards ? *shards_ : *file_;
    place_ = locator.locate(source_.tensor_of_part(tensor), source_.part_chunks_[chunk], item);
    place_.file += source_.made_.first_files[number];
    return place_;
  }

 private:
  const MergedSource& source_;
  std::unique_ptr<ItemLocator> shards_, file_;
  ChunkPlace place_;
};

std::unique_ptr<ItemLocator> MergedSource::item_locator() { return std::make_unique<Locator>(*this); }

std::shared_ptr<const ChunkPlace> MergedSource::locate(const TensorInfo& tensor, std::uint64_t chunk) {
  const std::uint32_t number = part_of_chunk(chunk);
  if (number == kShards) return shards_->locate(tensor_of_part(tensor), part_chunks_[chunk]);
  if (auto known = places_.find(chunk)) return known;
  ChunkPlace place = *file_->locate(tensor_of_part(tensor), part_chunks_[chunk]);
  place.file += made_.first_files[kFile];
  return places_.keep(chunk, std::move(place));
}

void MergedSource::read(std::uint32_t file, std::uint64_t byte_offset, std::span<std::byte> into) {
  const std::uint32_t number = part_of_file(file);
  part(number).read(file - made_.first_files[number], byte_offset, into);
}

std::uint64_t MergedSource::copy(std::uint32_t file, std::uint64_t byte_offset, std::uint64_t bytes,
                                 File& output, std::uint64_t output_offset) {
  const std::uint32_t number = part_of_file(file);
  return part(number).copy(file - made_.first_files[number], byte_offset, bytes, output, output_offset);
}

// --- objects ----------------------------------------------------------------------------------------------

pickle::Value MergedSource::read_object(pickle::Arena& arena, const ObjectInfo& object) {
  return part(origin(object).part).read_object(arena, object_of_part(object));
}

RecordContent MergedSource::find_storage(const pickle::Arena& arena, pickle::Value id,
                                         const ObjectInfo& object) {
  const std::uint32_t number = origin(object).part;
  RecordContent content = part(number).find_storage(arena, id, object_of_part(object));
  content.file += made_.first_files[number];
  return content;
}

// --- the wire: the parts, which are merged again
// ------------------------------------------------------------

Bytes MergedSource::encode() const {
  ByteWriter out;
  out.write(static_cast<std::uint8_t>(rule_));
  const Bytes shards = shards_->encode();
  out.write<std::uint64_t>(shards.size());
  out.append(shards);
  out.append(file_->encode());
  return out.take();
}

std::unique_ptr<MergedSource> MergedSource::decode(FileSystem& files, const std::string& directory,
                                                   std::span<const std::byte> encoded) {
  ByteReader in(encoded, "source");
  const auto rule = in.read<std::uint8_t>();
  if (rule > static_cast<std::uint8_t>(MergeRule::megatron)) fail_corrupt("source: rule {}", rule);
  const auto shards = in.bytes(in.read<std::uint64_t>());
  return std::make_unique<MergedSource>(
      std::make_unique<dcp::DirectorySource>(files, directory, Catalog::decode(shards)),
      std::make_unique<torch_file::FileSource>(files, directory, in.bytes(in.remaining())),
      static_cast<MergeRule>(rule));
}

}  // namespace cairn
