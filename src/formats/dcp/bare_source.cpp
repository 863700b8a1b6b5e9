// SPDX-License-Identifier: BSD-3-Clause
#include "formats/dcp/bare_source.hpp"

namespace cairn::dcp {

class BareSource::Locator final : public ItemLocator {
 public:
  explicit Locator(const BareSource& source) : source_(source) {}

  const ChunkPlace& locate(const TensorInfo& tensor, std::uint64_t chunk,
                           std::span<const std::byte>) override {
    return place_ = source_.place(tensor, chunk);
  }

 private:
  const BareSource& source_;
  ChunkPlace place_;
};

std::unique_ptr<ItemLocator> BareSource::item_locator() { return std::make_unique<Locator>(*this); }

std::shared_ptr<const ChunkPlace> BareSource::locate(const TensorInfo& tensor, std::uint64_t chunk) {
  return std::make_shared<const ChunkPlace>(place(tensor, chunk));
}

ChunkPlace BareSource::place(const TensorInfo& tensor, std::uint64_t chunk) const {
  const StoredItem& item = catalog().chunks()[chunk];
  ChunkPlace place;
  place.file = item.file;
  place.first_byte = place.storage_begin = item.byte_offset;
  place.storage_bytes = item.byte_length;
  place.strides = contiguous_strides(catalog().box(tensor, item).sizes);
  place.row_major = true;
  return place;
}

}  // namespace cairn::dcp
