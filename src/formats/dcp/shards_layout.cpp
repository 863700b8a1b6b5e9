// SPDX-License-Identifier: BSD-3-Clause
#include "formats/dcp/shards_layout.hpp"

#include <algorithm>
#include <cassert>

#include "formats/dcp/item_order.hpp"
#include "formats/dcp/item_writer.hpp"

namespace cairn::dcp {
namespace {

constexpr std::string_view kArchive = "archive";

torch_file::Layout object_layout(const torch_file::StatePickle& object) {
  std::vector<std::uint64_t> bytes;
  for (const RecordContent& storage : object.storages) bytes.push_back(storage.bytes);
  return {std::string(kArchive), object.pickle.size(), std::move(bytes)};
}

// Layouts are shared by threads, and items made once are for one of them.
const TensorItem& item_of(DType dtype, std::span<const std::int64_t> shape) {
  thread_local TensorItems items;
  return items.of(dtype, shape);
}

}  // namespace

std::uint64_t object_item_bytes(const torch_file::StatePickle& object) {
  return object_layout(object).file_size();
}

ShardsLayout::ShardsLayout(const Catalog& catalog, std::span<const torch_file::StatePickle> objects,
                           std::uint64_t shard_alignment)
    : catalog_(catalog), objects_(objects) {
  for (const auto& object : objects) object_layouts_.push_back(object_layout(object));
  for (const ItemRef ref : items_by_place(catalog)) {
    const StoredItem& item = stored_item(catalog, ref);
    while (shards_.size() <= item.file) {
      end_ = (end_ + shard_alignment - 1) / shard_alignment * shard_alignment;
      shards_.push_back({catalog.files()[shards_.size()], {end_, end_}});
    }
    Shard& shard = shards_[item.file];
    const std::uint64_t at = shard.range.begin + item.byte_offset;
    assert(item.byte_offset % kItemAlignment == 0 && at >= end_);
    if (catalog.entries()[ref.entry].is_tensor)
      add_tensor(at, ref.entry, ref.position);
    else
      add_object(at, ref.entry);
    end_ = shard.range.end = at + item.byte_length;
  }
}

void ShardsLayout::add_tensor(std::uint64_t at, std::uint32_t entry, std::uint32_t position) {
  Record record{at, 0, 0, entry, position};
  const TensorItem& item = item_of(dtype(record), box(record).sizes);
  record.payload_offset = item.payload_offset();
  record.payload_bytes = item.payload_bytes();
  records_.push_back(record);
}

void ShardsLayout::add_object(std::uint64_t at, std::uint32_t entry) {
  const torch_file::Layout& layout = object_layouts_[catalog_.entries()[entry].index];
  const auto count = static_cast<std::uint32_t>(layout.record_count());
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t begin = i == 0 ? 0 : layout.extent(i).begin;
    const ByteRange payload = layout.payload(i);
    records_.push_back({at + begin, payload.begin - begin, payload.size(), entry, i});
  }
  const std::uint64_t tail = count == 0 ? 0 : layout.region().end;
  records_.push_back({at + tail, layout.file_size() - tail, 0, entry, count});
}

BoxView ShardsLayout::box(const Record& record) const {
  const TensorInfo& tensor = catalog_.tensors()[catalog_.entries()[record.entry].index];
  return catalog_.box(tensor, catalog_.chunks(tensor)[record.position]);
}

DType ShardsLayout::dtype(const Record& record) const {
  return catalog_.tensors()[catalog_.entries()[record.entry].index].dtype;
}

ByteRange ShardsLayout::extent(std::uint64_t record) const {
  return {records_[record].begin, record + 1 < records_.size() ? records_[record + 1].begin : end_};
}

ByteRange ShardsLayout::payload(std::uint64_t record) const {
  const Record& one = records_[record];
  return {one.begin + one.payload_offset, one.begin + one.payload_offset + one.payload_bytes};
}

void ShardsLayout::write_front(std::uint64_t record, std::span<std::byte> into) const {
  const Record& one = records_[record];
  if (is_tensor(one)) {
    std::ranges::copy(item_of(dtype(one), box(one).sizes).head(), into.begin());
    return;
  }
  const torch_file::Layout& layout = object(one);
  const Bytes& pickle = content(one).pickle;
  Bytes head = one.position == 0 ? layout.head(pickle) : Bytes();
  if (one.position < layout.record_count()) {
    std::ranges::copy(head, into.begin());
    layout.write_front(one.position, into.subspan(head.size()));
  } else if (one.position == 0) {
    const Bytes tail = object_tail(one, {});
    head.insert(head.end(), tail.begin(), tail.end());
    std::ranges::copy(head, into.begin());
  } else {
    std::ranges::fill(into, std::byte{0});
  }
}

void ShardsLayout::write_back(std::uint64_t record, std::uint32_t crc, std::span<std::byte> into) const {
  const Record& one = records_[record];
  std::size_t written = 0;
  if (is_tensor(one)) {
    const TensorItem& item = item_of(dtype(one), box(one).sizes);
    written = item.tail_bytes();
    item.write_tail(crc, into.first(written));
  } else if (one.position < object(one).record_count()) {
    written = into.size();
    object(one).write_back(one.position, crc, into);
  }
  std::ranges::fill(into.subspan(written), std::byte{0});
}

std::vector<RecordContent> ShardsLayout::contents(std::span<const std::uint32_t> tensors) const {
  std::vector<RecordContent> contents;
  contents.reserve(records_.size());
  for (const Record& record : records_) {
    RecordContent& made = contents.emplace_back();
    if (!is_tensor(record)) {
      const auto& storages = content(record).storages;
      if (record.position < storages.size()) made = storages[record.position];
      continue;
    }
    made.is_tensor = made.is_part = true;
    made.dtype = dtype(record);
    made.tensor = tensors[catalog_.entries()[record.entry].index];
    made.bytes = record.payload_bytes;
    made.box = box(record);
  }
  return contents;
}

Bytes ShardsLayout::object_tail(const Record& record, std::span<const std::uint32_t> crcs) const {
  ByteWriter out;
  object(record).write_tail(content(record).pickle, {crcs.begin(), crcs.end()},
                            [&](std::span<const std::byte> bytes) { out.append(bytes); });
  return out.take();
}

void ShardsLayout::write_object_tails(
    std::span<const std::uint32_t> crcs,
    const std::function<void(std::uint64_t, std::span<const std::byte>)>& write) const {
  for (std::size_t i = 0; i < records_.size(); ++i) {
    const Record& record = records_[i];
    if (is_tensor(record) || record.position == 0 || record.position < object(record).record_count())
      continue;
    write(record.begin, object_tail(record, crcs.subspan(i - record.position, record.position)));
  }
}

}  // namespace cairn::dcp
