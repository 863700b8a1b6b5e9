// SPDX-License-Identifier: BSD-3-Clause
#include "formats/dcp/item_writer.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <string_view>

#include "base/checked.hpp"
#include "base/crc32.hpp"
#include "base/fail.hpp"
#include "cairn/box.hpp"
#include "formats/torch_file/records.hpp"
#include "formats/torch_file/tensor_nodes.hpp"
#include "pickle/persistent_nodes.hpp"
#include "pickle/writer.hpp"
#include "zip/records.hpp"
#include "zip/torch_layout.hpp"

namespace cairn::dcp {
namespace {

constexpr std::string_view kArchive = "archive", kPayloadRecord = "data/0";
constexpr std::uint32_t kAlignment = 64;
constexpr std::uint64_t kMaxPayload = std::uint64_t{1} << 62;
constexpr std::size_t kItemsKept = 4096;  // of about 2 KiB

Bytes pickled(const pickle::Arena& arena, pickle::Value value) {
  ByteWriter out;
  pickle::write_protocol2(arena, value, out);
  return out.take();
}

Bytes tensor_pickle(DType dtype, std::span<const std::int64_t> shape, std::uint64_t bytes) {
  pickle::Arena arena;
  torch_file::TensorNodes nodes(arena);
  const std::array id{arena.string("storage"), nodes.storage_class(dtype), arena.string("0"),
                      arena.string("cpu"), nodes.storage_count(dtype, bytes)};
  return pickled(arena, nodes.tensor(dtype, shape, arena.persistent(arena.tuple(id))));
}

std::uint64_t payload_bytes(DType dtype, std::span<const std::int64_t> shape) {
  const auto bytes =
      checked_mul(static_cast<std::uint64_t>(element_count(shape)), element_size(dtype), "tensor size");
  if (bytes > kMaxPayload) fail(ErrorKind::unsupported, "a chunk of {} bytes", bytes);
  return bytes;
}

// Writes the records of an archive in order; the payload of one of them may be left to others.
class ArchiveWriter {
 public:
  zip::RecordPlace begin(std::string_view record, std::uint64_t size, ByteWriter& out) {
    name_.assign(kArchive).append("/").append(record);
    const auto place = zip::place_record(name_.size(), size, at_, kAlignment);
    zip::write_local_header(name_, place, out);
    at_ = place.end();
    return place;
  }
  /// Returns where in the directory the CRC stands.
  std::size_t end(std::string_view record, const zip::RecordPlace& place, std::uint32_t crc,
                  ByteWriter& out) {
    id_.add(record, crc, place.size);
    zip::write_descriptor(place, crc, out);
    const std::size_t entry = directory_.size();
    zip::write_central_entry(name_, place, crc, directory_);
    ++entries_;
    return entry + zip::kCentralCrc;
  }
  std::size_t add(std::string_view record, std::span<const std::byte> content, ByteWriter& out) {
    const auto place = begin(record, content.size(), out);
    out.append(content);
    return end(record, place, crc32(content), out);
  }
  /// The serialization id of what was added so far.
  std::string id() const { return id_.digits(); }
  /// Directory and end records.
  void finish(ByteWriter& out) const {
    out.append(directory_.view());
    zip::write_end(at_, directory_.size(), entries_, out);
  }

 private:
  std::string name_;
  std::uint64_t at_ = 0, entries_ = 0;
  ByteWriter directory_;
  zip::SerializationId id_;
};

void put(std::uint32_t value, std::size_t at, std::span<std::byte> into) {
  std::memcpy(into.data() + at, &value, sizeof(value));
}

}  // namespace

TensorItem::TensorItem(DType dtype, std::span<const std::int64_t> shape)
    : payload_bytes_(dcp::payload_bytes(dtype, shape)) {
  ByteWriter head, tail;
  ArchiveWriter archive;
  const auto add_counted = [&](std::string_view record, std::span<const std::byte> content) {
    archive.add(record, content, head);
    crcs_ = zip::add_to_crcs(crcs_, crc32(content));
  };
  add_counted(torch_file::kPickleRecord, tensor_pickle(dtype, shape, payload_bytes_));
  for (const auto& record : torch_file::head_records(kAlignment)) {
    add_counted(record.name, as_bytes(record.content));
  }
  const auto payload = archive.begin(kPayloadRecord, payload_bytes_, head);
  const std::size_t entry = archive.end(kPayloadRecord, payload, 0, tail);
  archive.add(torch_file::kVersionRecord, as_bytes(torch_file::kVersion), tail);

  const std::string id = archive.id();
  const auto id_place = archive.begin(torch_file::kIdRecord, id.size(), tail);
  id_at_ = tail.size();
  tail.text(id);
  id_descriptor_crc_ = tail.size() + zip::kDescriptorCrc;
  const std::size_t id_entry = archive.end(torch_file::kIdRecord, id_place, crc32(as_bytes(id)), tail);
  entry_crc_ = tail.size() + entry;
  id_entry_crc_ = tail.size() + id_entry;
  archive.finish(tail);
  head_ = head.take();
  tail_ = tail.take();
}

void TensorItem::write_tail(std::uint32_t payload_crc, std::span<std::byte> into) const {
  assert(into.size() == tail_.size());
  std::ranges::copy(tail_, into.begin());
  if (payload_bytes_ == 0) return;  // no CRC of it anywhere
  put(payload_crc, zip::kDescriptorCrc, into);
  put(payload_crc, entry_crc_, into);

  std::uint64_t crcs =
      zip::add_to_crcs(zip::add_to_crcs(crcs_, payload_crc), crc32(as_bytes(torch_file::kVersion)));
  const auto id = into.subspan(id_at_, torch_file::kIdDigits);
  for (std::size_t i = id.size(); i-- > id.size() / 2; crcs /= 10) {
    id[i] = static_cast<std::byte>('0' + crcs % 10);
  }
  const std::uint32_t id_crc = crc32(id);
  put(id_crc, id_descriptor_crc_, into);
  put(id_crc, id_entry_crc_, into);
}

const TensorItem& TensorItems::of(DType dtype, std::span<const std::int64_t> shape) {
  key_.first = dtype;
  key_.second.assign(shape.begin(), shape.end());
  if (const auto known = items_.find(key_); known != items_.end()) return known->second;
  if (items_.size() == kItemsKept) items_.clear();
  return items_.try_emplace(key_, dtype, shape).first->second;
}

Bytes object_item(const pickle::Arena& arena, pickle::Value value) {
  if (!pickle::persistent_nodes(arena, value).empty()) {
    fail(ErrorKind::unsupported, "an object that holds tensors");
  }
  return object_item(pickled(arena, value), {});
}

Bytes object_item(std::span<const std::byte> pickle, std::span<const Bytes> storages) {
  ByteWriter out;
  ArchiveWriter archive;
  archive.add(torch_file::kPickleRecord, pickle, out);
  for (const auto& record : torch_file::head_records(kAlignment)) {
    archive.add(record.name, as_bytes(record.content), out);
  }
  for (std::size_t i = 0; i < storages.size(); ++i) archive.add(fmt::format("data/{}", i), storages[i], out);
  archive.add(torch_file::kVersionRecord, as_bytes(torch_file::kVersion), out);
  archive.add(torch_file::kIdRecord, as_bytes(archive.id()), out);
  archive.finish(out);
  return out.take();
}

}  // namespace cairn::dcp
