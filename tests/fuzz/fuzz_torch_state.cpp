// SPDX-License-Identifier: BSD-3-Clause
// A torch file from any bytes, read as a source: catalogue, places, objects and their storages, the wire.
#include <algorithm>
#include <cstdlib>

#include "cairn/error.hpp"
#include "formats/torch_file/source.hpp"
#include "memory_file.hpp"
#include "pickle/persistent_nodes.hpp"
#include "storage/forwarding.hpp"

namespace {

using namespace cairn;

class OneFile final : public ForwardingFileSystem {
 public:
  explicit OneFile(std::span<const std::uint8_t> bytes)
      : ForwardingFileSystem(posix_file_system()), bytes_(bytes) {}
  std::unique_ptr<File> open_read(const std::string&) override { return std::make_unique<Memory>(bytes_); }

 private:
  std::span<const std::uint8_t> bytes_;
};

// A place's elements lie in the file.
void check(const ChunkPlace& place, BoxView box, std::uint64_t element, std::uint64_t size) {
  if (box.empty()) return;
  std::uint64_t last = place.first_byte;
  for (std::size_t d = 0; d < box.ndim(); ++d)
    last += static_cast<std::uint64_t>((box.sizes[d] - 1) * place.strides[d]) * element;
  if (last + element > size || place.storage_begin + place.storage_bytes > size) std::abort();
}

void read_chunks(torch_file::FileSource& source, std::uint64_t size) {
  const auto locator = source.item_locator();
  for (const TensorInfo& tensor : source.catalog().tensors()) {
    const std::uint64_t chunk = tensor.first_chunk;
    const BoxView box = source.catalog().box(tensor, source.catalog().chunks()[chunk]);
    try {
      const auto place = source.locate(tensor, chunk);
      check(*place, box, element_size(tensor.dtype), size);
      const auto item = source.small_item(chunk);
      if (!item) continue;
      std::vector<std::byte> bytes(item->bytes);
      source.read(0, item->begin, bytes);
      if (locator->locate(tensor, chunk, bytes).first_byte != place->first_byte) std::abort();
    } catch (const Error&) {
    }
  }
}

void read_objects(torch_file::FileSource& source, std::uint64_t size) {
  pickle::Arena arena;
  for (const ObjectInfo& object : source.catalog().objects()) {
    const auto value = source.read_object(arena, object);
    for (const auto node : pickle::persistent_nodes(arena, value)) {
      try {
        const auto storage = source.find_storage(arena, arena.persistent_id(node), object);
        if (storage.byte_offset + storage.bytes > size) std::abort();
      } catch (const Error&) {
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  OneFile files({data, size});
  for (const auto empty_dicts : {torch_file::EmptyDicts::drop, torch_file::EmptyDicts::keep}) {
    try {
      torch_file::FileSource source(files, ".", "input", empty_dicts);
      read_chunks(source, size);
      read_objects(source, size);
      const auto encoded = source.encode();
      if (torch_file::FileSource(files, ".", encoded).encode() != encoded) std::abort();
    } catch (const Error&) {
    }
  }
  return 0;
}
