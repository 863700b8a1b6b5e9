// SPDX-License-Identifier: BSD-3-Clause
#include "formats/dcp/item.hpp"

#include <array>
#include <cstring>

#include "base/fail.hpp"
#include "formats/torch_file/archive.hpp"
#include "formats/torch_file/tensor_value.hpp"

namespace cairn::dcp {
namespace {

enum class ItemKind : std::uint8_t { zip, legacy_torch, safetensors, other };

ItemKind kind_of(const zip::ReadAt& read_at, std::uint64_t item_bytes) {
  std::array<std::byte, 9> head{};
  if (item_bytes < head.size()) return ItemKind::other;
  read_at(0, head);
  if (std::memcmp(head.data(), "PK\3\4", 4) == 0) return ItemKind::zip;
  // torch's safetensors writer gives each item the file's first byte and the payload's length: no bound on it
  std::uint64_t header_bytes;
  std::memcpy(&header_bytes, head.data(), sizeof(header_bytes));
  if (head[8] == std::byte{'{'} && header_bytes <= 100'000'000) return ItemKind::safetensors;
  // torch.save before 1.6 began with its magic number as a pickled long
  if (std::memcmp(head.data(), "\x80\x02\x8a\x0al\xfc\x9c", 7) == 0) return ItemKind::legacy_torch;
  return ItemKind::other;
}

void check_tensor_kind(ItemKind kind, std::string_view where) {
  switch (kind) {
    case ItemKind::zip:
      return;
    case ItemKind::safetensors:
      fail(ErrorKind::unsupported, "{}: a safetensors item; torch itself cannot read such .distcp files",
           where);
    case ItemKind::legacy_torch:
      fail(ErrorKind::unsupported, "{}: saved in torch's format before 1.6", where);
    case ItemKind::other:
      fail_corrupt("{}: no torch.save archive (the bytes 'PK\\3\\4' expected)", where);
  }
}

}  // namespace

ItemHead read_item_head(const zip::ReadAt& read_at, std::uint64_t item_bytes, std::string_view where) {
  check_tensor_kind(kind_of(read_at, item_bytes), where);
  const torch_file::Archive archive(read_at, item_bytes, std::string(where));
  pickle::Arena arena;
  const pickle::Value root = archive.read_pickle(arena);
  return with_context([&] { return std::string(where); },
                      [&] {
                        auto tensor = torch_file::decode_tensor(arena, root);
                        if (!tensor) fail_corrupt("the item holds no tensor");
                        const auto record = archive.storage(tensor->storage_key, tensor->storage_bytes);
                        const std::uint64_t first =
                            record.byte_offset +
                            static_cast<std::uint64_t>(tensor->storage_offset) * element_size(tensor->dtype);
                        return ItemHead{tensor->dtype,
                                        std::move(tensor->shape),
                                        std::move(tensor->strides),
                                        record.byte_offset,
                                        record.size,
                                        first,
                                        record.crc};
                      });
}

ObjectItem::ObjectItem(zip::ReadAt read_at, std::uint64_t item_bytes, std::string where)
    : read_at_(std::move(read_at)), item_bytes_(item_bytes), where_(std::move(where)) {
  const ItemKind kind = kind_of(read_at_, item_bytes_);
  if (kind == ItemKind::legacy_torch) check_tensor_kind(kind, where_);
  if (kind == ItemKind::zip) archive_.emplace(read_at_, item_bytes_, where_);
}

pickle::Value ObjectItem::read(pickle::Arena& arena) const {
  if (archive_) return archive_->read_pickle(arena);
  Bytes raw(item_bytes_);
  read_at_(0, raw);
  return arena.bytes(as_text(raw));
}

ObjectStorage ObjectItem::storage(const pickle::Arena& arena, pickle::Value id) const {
  if (!archive_) fail_corrupt("{}: a storage in an item that is no archive", where_);
  return with_context([&] { return where_; },
                      [&] {
                        const auto storage = torch_file::decode_storage_id(arena, id);
                        const auto record = archive_->storage(storage.key, storage.bytes);
                        const bool whole = record.size == storage.bytes;
                        return ObjectStorage{record.byte_offset, storage.bytes, whole ? record.crc : 0};
                      });
}

}  // namespace cairn::dcp
