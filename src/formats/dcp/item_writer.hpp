// SPDX-License-Identifier: BSD-3-Clause
// The items of a `.distcp` file as torch's FileSystemWriter writes them, byte for byte: what torch.save makes
// of one tensor or one object on a stream (docs/format-torch-file.md, with the archive name `archive`). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/byte_writer.hpp"
#include "cairn/tensor.hpp"
#include "pickle/value.hpp"

namespace cairn::dcp {

/// All items of contiguous tensors of one dtype and shape: a head, the payload, a tail. Only the tail depends
/// on the payload, by its CRC-32.
class TensorItem {
 public:
  /// Throws corrupt for a negative size or more bytes than 64 bits count, unsupported for more than 2^62.
  TensorItem(DType dtype, std::span<const std::int64_t> shape);

  /// Byte offsets and lengths in the item.
  std::uint64_t payload_offset() const { return head_.size(); }
  std::uint64_t payload_bytes() const { return payload_bytes_; }
  std::uint64_t byte_length() const { return head_.size() + payload_bytes_ + tail_.size(); }

  std::span<const std::byte> head() const { return head_; }
  std::uint64_t tail_bytes() const { return tail_.size(); }
  /// `into` has tail_bytes() bytes.
  void write_tail(std::uint32_t payload_crc, std::span<std::byte> into) const;

 private:
  std::uint64_t payload_bytes_;
  Bytes head_, tail_;
  std::uint64_t crcs_ = 0;  // the serialization id's second number, of the records before the payload
  // byte offsets in the tail
  std::size_t descriptor_crc_ = 0, entry_crc_ = 0, id_at_ = 0, id_descriptor_crc_ = 0, id_entry_crc_ = 0;
};

/// Items made once for each dtype and shape met lately. One object per thread.
class TensorItems {
 public:
  /// Valid until the next call. Throws as TensorItem.
  const TensorItem& of(DType dtype, std::span<const std::int64_t> shape);

 private:
  using Key = std::pair<DType, std::vector<std::int64_t>>;
  std::map<Key, TensorItem> items_;
  Key key_;
};

/// The item of an object. Throws unsupported for values that hold storages, and what pickle/writer.hpp says.
Bytes object_item(const pickle::Arena& arena, pickle::Value value);
/// Likewise, of its pickle and the storages that it names "0", "1", …
Bytes object_item(std::span<const std::byte> pickle, std::span<const Bytes> storages);

}  // namespace cairn::dcp
