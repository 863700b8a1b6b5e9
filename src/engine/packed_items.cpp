// SPDX-License-Identifier: BSD-3-Clause
#include "engine/packed_items.hpp"

#include <algorithm>

#include "engine/view_copy.hpp"

namespace cairn {
namespace {

// Bytes of the view's elements, from any byte on. Whole elements go straight into the target.
void copy_bytes(const TensorView& view, std::uint64_t at, std::span<std::byte> into) {
  const std::uint64_t size = element_size(view.dtype);
  std::byte element[16];
  while (!into.empty()) {
    const auto index = static_cast<std::int64_t>(at / size);
    std::uint64_t bytes = into.size() / size * size;
    if (at % size == 0 && bytes > 0) {
      copy_elements(view, index, into.first(bytes));
    } else {  // the range begins or ends inside of an element
      bytes = std::min<std::uint64_t>(size - at % size, into.size());
      copy_elements(view, index, std::span(element).first(size));
      std::copy_n(element + at % size, bytes, into.data());
    }
    at += bytes;
    into = into.subspan(bytes);
  }
}

}  // namespace

PackedItems::PackedItems(std::vector<ShardItem> items) : items_(std::move(items)) {
  std::uint64_t end = 0;
  ends_.reserve(items_.size());
  for (const ShardItem& item : items_)
    ends_.push_back(end += item.object ? item.object->size() : item.view.byte_count());
}

std::vector<ItemPlace> PackedItems::places() const {
  std::vector<ItemPlace> places;
  places.reserve(items_.size());
  for (std::size_t i = 0; i < items_.size(); ++i) places.push_back({begin(i), ends_[i] - begin(i)});
  return places;
}

std::size_t PackedItems::item_at(std::uint64_t byte_offset) const {
  return static_cast<std::size_t>(std::ranges::upper_bound(ends_, byte_offset) - ends_.begin());
}

std::span<const std::byte> PackedItems::on_device(std::uint64_t byte_offset, std::uint64_t bytes,
                                                  const DeviceLink& link) const {
  const std::size_t item = item_at(byte_offset);
  if (item == items_.size() || items_[item].object || bytes > ends_[item] - byte_offset) return {};
  const TensorView& view = items_[item].view;
  if (view.device == nullptr || !view.is_contiguous() || !link.reaches(*view.device)) return {};
  return {view.data + (byte_offset - begin(item)), bytes};
}

void PackedItems::read(std::uint64_t byte_offset, std::span<std::byte> into) const {
  for (std::size_t item = item_at(byte_offset); !into.empty(); ++item) {
    const std::uint64_t at = byte_offset - begin(item);
    const auto here = into.first(std::min<std::uint64_t>(into.size(), ends_[item] - byte_offset));
    if (items_[item].object)
      std::copy_n(items_[item].object->data() + at, here.size(), here.data());
    else
      copy_bytes(items_[item].view, at, here);
    byte_offset += here.size();
    into = into.subspan(here.size());
  }
}

}  // namespace cairn
