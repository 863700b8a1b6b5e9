// SPDX-License-Identifier: BSD-3-Clause
#include "formats/dcp/source.hpp"

#include <algorithm>
#include <cstring>

#include "base/fail.hpp"
#include "base/text.hpp"
#include "formats/dcp/item.hpp"

namespace cairn::dcp {
namespace {

constexpr std::uint64_t kHeadBytes = 4096;

}  // namespace

// Serves an item's small reads from memory: a small item wholly, a large one's first block.
class DirectorySource::ItemReader {
 public:
  ItemReader(Source& source, const Place& item) : source_(source), item_(item) {
    head_.resize(item.bytes <= kSmallItemBytes ? item.bytes : kHeadBytes);
    source.read(item.file, item.byte_offset, head_);
  }

  zip::ReadAt read_at() {
    return [this](std::uint64_t at, std::span<std::byte> into) {
      if (at + into.size() <= head_.size()) {
        std::memcpy(into.data(), head_.data() + at, into.size());
      } else {
        source_.read(item_.file, item_.byte_offset + at, into);
      }
    };
  }

 private:
  Source& source_;
  const Place item_;
  std::vector<std::byte> head_;
};

DirectorySource::DirectorySource(FileSystem& files, std::string directory, Catalog catalog)
    : catalog_(std::move(catalog)),
      files_(files, std::move(directory)),
      expanded_([this](std::uint64_t number) { return find_stored(number); }) {}

std::optional<FileRange> DirectorySource::small_item(std::uint64_t chunk) const {
  const StoredItem& item = catalog_.chunks()[chunk];
  if (item.byte_length > kSmallItemBytes || item.transform != Transform::none) return std::nullopt;
  return FileRange{item.file, item.byte_offset, item.byte_length};
}

class DirectorySource::Locator : public ItemLocator {
 public:
  explicit Locator(const DirectorySource& source) : source_(source) {}

  const ChunkPlace& locate(const TensorInfo& tensor, std::uint64_t chunk,
                           std::span<const std::byte> item) override {
    const StoredItem& row = source_.catalog_.chunks()[chunk];
    source_.set_place(tensor, row, {row.file, row.byte_offset, row.byte_length}, head_of(tensor, row, item),
                      place_);
    return place_;
  }

 private:
  // Describing an item costs more than reading its head: it is read again when there is something to tell.
  const ItemHead& head_of(const TensorInfo& tensor, const StoredItem& row, std::span<const std::byte> item) {
    try {
      return heads_.read(item, {});
    } catch (const Error&) {
      return heads_.read(item, source_.describe(source_.catalog_.name(tensor), row));
    }
  }

  const DirectorySource& source_;
  ItemHeads heads_;
  ChunkPlace place_;
};

std::unique_ptr<ItemLocator> DirectorySource::item_locator() { return std::make_unique<Locator>(*this); }

std::shared_ptr<const ChunkPlace> DirectorySource::locate(const TensorInfo& tensor, std::uint64_t chunk) {
  if (auto known = places_.find(chunk)) return known;
  const StoredItem& item = catalog_.chunks()[chunk];
  const Place stored = place_of(item, chunk);
  ItemReader reader(*this, stored);
  ChunkPlace place;
  set_place(tensor, item, stored,
            read_item_head(reader.read_at(), stored.bytes, describe(catalog_.name(tensor), item)), place);
  return places_.keep(chunk, std::move(place));
}

void DirectorySource::set_place(const TensorInfo& tensor, const StoredItem& chunk, const Place& item,
                                const ItemHead& head, ChunkPlace& place) const {
  const BoxView box = catalog_.box(tensor, chunk);
  const auto where = [&] { return describe(catalog_.name(tensor), chunk); };
  if (head.dtype != tensor.dtype) {
    fail_corrupt("{}: the item has dtype {}, {} expected", where(), info(head.dtype).name,
                 info(tensor.dtype).name);
  }
  if (!std::ranges::equal(head.shape, box.sizes)) {
    fail_corrupt("{}: the item has shape {}, {} expected", where(), to_string(head.shape),
                 to_string(box.sizes));
  }
  place.file = item.file;
  place.first_byte = item.byte_offset + head.first_byte;
  place.strides = head.strides;
  place.storage_begin = item.byte_offset + head.storage_at;
  place.storage_bytes = head.storage_bytes;
  place.storage_crc = head.storage_crc;
  place.row_major = fills_row_major(head.shape, head.strides, element_size(head.dtype),
                                    head.first_byte - head.storage_at, head.storage_bytes);
}

void DirectorySource::read(std::uint32_t file, std::uint64_t byte_offset, std::span<std::byte> into) {
  if (file >= kFirstExpanded) return expanded_.read(file - kFirstExpanded, byte_offset, into);
  files_.read(catalog_.files()[file], byte_offset, into);
}

std::uint64_t DirectorySource::copy(std::uint32_t file, std::uint64_t byte_offset, std::uint64_t bytes,
                                    File& output, std::uint64_t output_offset) {
  if (file >= kFirstExpanded) return 0;
  return files_.copy(catalog_.files()[file], byte_offset, bytes, output, output_offset);
}

// The item opened last: its storages are asked for one by one.
struct DirectorySource::OpenObject {
  OpenObject(DirectorySource& source, const ObjectInfo& object)
      : info(&object),
        place(source.place_of(object.item, source.number_of(object))),
        reader(source, place),
        item(reader.read_at(), place.bytes, source.describe(source.catalog().name(object), object.item)) {}

  const ObjectInfo* info;
  Place place;
  ItemReader reader;
  ObjectItem item;
};

DirectorySource::~DirectorySource() = default;

const ObjectItem& DirectorySource::open(const ObjectInfo& object) {
  if (!open_object_ || open_object_->info != &object) {
    open_object_ = std::make_unique<OpenObject>(*this, object);
  }
  return open_object_->item;
}

Bytes DirectorySource::object_bytes(const ObjectInfo& object) {
  const Place place = place_of(object.item, number_of(object));
  Bytes bytes(place.bytes);
  read(place.file, place.byte_offset, bytes);
  return bytes;
}

pickle::Value DirectorySource::read_object(pickle::Arena& arena, const ObjectInfo& object) {
  return open(object).read(arena);
}

RecordContent DirectorySource::find_storage(const pickle::Arena& arena, pickle::Value id,
                                            const ObjectInfo& object) {
  const auto storage = open(object).storage(arena, id);
  const Place& place = open_object_->place;
  return {.file = place.file,
          .byte_offset = place.byte_offset + storage.byte_offset,
          .bytes = storage.bytes,
          .crc = storage.crc};
}

// --- compressed items -------------------------------------------------------------------------------------

DirectorySource::Place DirectorySource::place_of(const StoredItem& item, std::uint64_t number) {
  if (item.transform == Transform::none) return {item.file, item.byte_offset, item.byte_length};
  constexpr std::uint32_t most = 0x40000000;
  if (number >= most)
    fail(ErrorKind::unsupported, "{}: more than {} compressed items", escape_name(files_.directory()), most);
  return {kFirstExpanded + static_cast<std::uint32_t>(number), 0, expanded_.size(number)};
}

std::uint64_t DirectorySource::number_of(const ObjectInfo& object) const {
  return catalog_.chunks().size() + static_cast<std::uint64_t>(&object - catalog_.objects().data());
}

ExpandedItems::Stored DirectorySource::find_stored(std::uint64_t number) {
  const std::uint64_t chunks = catalog_.chunks().size();
  const bool is_chunk = number < chunks;
  const StoredItem& item = is_chunk ? catalog_.chunks()[number] : catalog_.objects()[number - chunks].item;
  const auto read = [this, item](std::uint64_t at, std::span<std::byte> into) {
    files_.read(catalog_.files()[item.file], item.byte_offset + at, into);
  };
  return {read, item.byte_length, most_expanded_bytes(catalog_, number), describe_number(number)};
}

std::string DirectorySource::describe_number(std::uint64_t number) const {
  const std::uint64_t chunks = catalog_.chunks().size();
  if (number < chunks)
    return describe(catalog_.name(tensor_of_item(catalog_, number)), catalog_.chunks()[number]);
  const ObjectInfo& object = catalog_.objects()[number - chunks];
  return describe(catalog_.name(object), object.item);
}

std::string DirectorySource::file_text(std::uint32_t file) const {
  if (file < kFirstExpanded) return CheckpointSource::file_text(file);
  return "the expanded " + describe_number(file - kFirstExpanded);
}

std::string DirectorySource::describe(std::string_view name, const StoredItem& item) const {
  return fmt::format("'{}' in {} at byte {}", escape_name(name), escape_name(catalog_.files()[item.file]),
                     item.byte_offset);
}

}  // namespace cairn::dcp
