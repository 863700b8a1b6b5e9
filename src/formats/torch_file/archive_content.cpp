// SPDX-License-Identifier: BSD-3-Clause
#include "formats/torch_file/archive_content.hpp"

#include "base/crc32.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "formats/torch_file/tensor_value.hpp"
#include "pickle/persistent_nodes.hpp"
#include "pickle/reader.hpp"

namespace cairn::torch_file {
namespace {

std::optional<std::uint64_t> find_payload(const zip::ReadAt& read_at, const zip::Directory& directory,
                                          const zip::Entry& entry) {
  try {
    return zip::payload_offset(read_at, directory, entry, "zip archive");
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::corrupt || error.kind() == ErrorKind::unsupported) return {};
    throw;
  }
}

// A storage whose bytes are no multiple of its element size is named by the whole elements in it.
void check_storage(const pickle::Arena& arena, pickle::Value id, const ArchiveIndex& index) {
  const StorageId storage = decode_storage_id(arena, id);
  std::string name = "data/";
  name += storage.key;
  const zip::Entry* record = index.find(name);
  if (record == nullptr) fail_corrupt("no zip record '{}' for a storage of the pickle", escape_name(name));
  const std::uint64_t element = storage.dtype ? element_size(*storage.dtype) : 1;
  if (record->size >= storage.bytes && record->size - storage.bytes < element) return;
  fail_corrupt("zip record '{}' has {} bytes, {} expected for the storage of the pickle", escape_name(name),
               record->size, storage.bytes);
}

}  // namespace

std::optional<Bytes> read_intact(std::string_view name, const ArchiveIndex& index, std::uint64_t base,
                                 SequentialReader& reader) {
  const zip::Entry* entry = index.find(name);
  if (entry == nullptr) fail_corrupt("no zip record '{}'", name);
  const auto at =
      find_payload([&](std::uint64_t offset, std::span<std::byte> into) { reader.peek(base + offset, into); },
                   index.directory(), *entry);
  if (!at) return {};
  Bytes bytes(entry->size);  // bounded: the payload was just found to lie inside the archive
  reader.peek(base + *at, bytes);
  if (entry->crc != 0 && crc32(bytes) != entry->crc) return {};
  return bytes;
}

std::optional<pickle::Value> check_content(pickle::Arena& arena, const ArchiveIndex& index,
                                           std::uint64_t base, SequentialReader& reader) {
  const auto bytes = read_intact("data.pkl", index, base, reader);
  if (!bytes) return {};
  const pickle::Value root = pickle::read(arena, *bytes, "data.pkl");
  for (const pickle::Value node : pickle::persistent_nodes(arena, root)) {
    check_storage(arena, arena.persistent_id(node), index);
  }
  return root;
}

void check_byte_order(const ArchiveIndex& index, std::uint64_t base, SequentialReader& reader) {
  if (index.find("byteorder") == nullptr) return;  // before torch 2.1 there was none: little-endian
  const auto bytes = read_intact("byteorder", index, base, reader);
  if (!bytes || as_text(*bytes) == "little") return;
  if (as_text(*bytes) == "big")
    fail(ErrorKind::unsupported, "saved on a big-endian machine, which Cairn does not read");
  fail_corrupt("byte order '{}', 'little' or 'big' expected", escape_name(as_text(*bytes).substr(0, 32)));
}

}  // namespace cairn::torch_file
