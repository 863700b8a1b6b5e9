// SPDX-License-Identifier: BSD-3-Clause
#include "formats/dcp/item.hpp"

#include <array>
#include <cstring>

#include "base/fail.hpp"
#include "formats/torch_file/archive.hpp"
#include "formats/torch_file/tensor_value.hpp"
#include "pickle/reader.hpp"

namespace cairn::dcp {
namespace {

enum class ItemKind : std::uint8_t { zip, legacy_torch, safetensors, other };

constexpr std::size_t kKindBytes = 9;
constexpr std::size_t kMaxDecodedBytes = 64 << 10;  // of pickles

ItemKind kind_of(std::span<const std::byte> head) {
  if (head.size() < kKindBytes) return ItemKind::other;
  if (std::memcmp(head.data(), "PK\3\4", 4) == 0) return ItemKind::zip;
  // torch's safetensors writer gives each item the file's first byte and the payload's length: no bound on it
  std::uint64_t header_bytes;
  std::memcpy(&header_bytes, head.data(), sizeof(header_bytes));
  if (head[8] == std::byte{'{'} && header_bytes <= 100'000'000) return ItemKind::safetensors;
  // torch.save before 1.6 began with its magic number as a pickled long
  if (std::memcmp(head.data(), "\x80\x02\x8a\x0al\xfc\x9c", 7) == 0) return ItemKind::legacy_torch;
  return ItemKind::other;
}

ItemKind kind_of(const zip::ReadAt& read_at, std::uint64_t item_bytes) {
  std::array<std::byte, kKindBytes> head;
  if (item_bytes < head.size()) return ItemKind::other;
  read_at(0, head);
  return kind_of(head);
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

torch_file::StoredTensor tensor_in(const pickle::Arena& arena, pickle::Value root) {
  auto tensor = torch_file::decode_tensor(arena, root);
  if (!tensor) fail_corrupt("the item holds no tensor");
  return std::move(*tensor);
}

void place(const torch_file::StoredTensor& tensor, const torch_file::Archive& archive, ItemHead& head) {
  const auto record = archive.storage(tensor.storage_key, tensor.storage_bytes);
  head.dtype = tensor.dtype;
  head.shape = tensor.shape;
  head.strides = tensor.strides;
  head.storage_at = record.byte_offset;
  head.storage_bytes = record.size;
  head.first_byte =
      record.byte_offset + static_cast<std::uint64_t>(tensor.storage_offset) * element_size(tensor.dtype);
  head.storage_crc = record.crc;
}

}  // namespace

ItemHead read_item_head(const zip::ReadAt& read_at, std::uint64_t item_bytes, std::string_view where) {
  check_tensor_kind(kind_of(read_at, item_bytes), where);
  const torch_file::Archive archive(read_at, item_bytes, where);
  pickle::Arena arena;
  const pickle::Value root = archive.read_pickle(arena);
  ItemHead head;
  with_context([&] { return where; }, [&] { place(tensor_in(arena, root), archive, head); });
  return head;
}

const ItemHead& ItemHeads::read(std::span<const std::byte> item, std::string_view where) {
  check_tensor_kind(kind_of(item), where);
  const torch_file::Archive archive(item, where);
  Bytes unused;
  const auto& tensor = decode(archive.pickle_bytes(unused), where);
  with_context([&] { return where; }, [&] { place(tensor, archive, head_); });
  return head_;
}

const torch_file::StoredTensor& ItemHeads::decode(std::span<const std::byte> pickle, std::string_view where) {
  if (const auto found = decoded_.find(as_text(pickle)); found != decoded_.end()) return found->second.tensor;
  auto arena = std::make_unique<pickle::Arena>();
  const pickle::Value root = pickle::read(*arena, pickle, fmt::format("{}: data.pkl", where));
  auto tensor = with_context([&] { return where; }, [&] { return tensor_in(*arena, root); });
  if (decoded_bytes_ + pickle.size() > kMaxDecodedBytes) {
    decoded_.clear();
    decoded_bytes_ = 0;
  }
  decoded_bytes_ += pickle.size();
  const auto inserted = decoded_.emplace(as_text(pickle), Decoded{std::move(tensor), std::move(arena)});
  return inserted.first->second.tensor;
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
