// SPDX-License-Identifier: BSD-3-Clause
// The `.distcp` files of a directory as one output: shard after shard, item after item. Pure.
//
// An item begins at a multiple of 64 bytes of its file, so that no element is cut by a window; between items
// are zeros. A record is the item of a tensor's chunk (front: all before the payload), or of an object. An
// object that holds storages is a record for each of them, and one more, without payload, of what comes after
// the last: its bytes depend on the CRCs of all, and are left to write_object_tails().
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/byte_writer.hpp"
#include "cairn/metadata.hpp"
#include "formats/output_layout.hpp"
#include "formats/record_content.hpp"
#include "formats/torch_file/layout.hpp"
#include "formats/torch_file/state_pickle.hpp"

namespace cairn::dcp {

inline constexpr std::uint64_t kItemAlignment = 64;

/// Of an object's item: its pickle, and the storages that it refers to.
std::uint64_t object_item_bytes(const torch_file::StatePickle& object);

class ShardsLayout final : public OutputLayout {
 public:
  /// `catalog` is what is written: its files are the shards, its chunks and objects have their places, at
  /// multiples of kItemAlignment, apart. `objects` are its objects, by index. Both outlive the layout. Each
  /// shard begins at a multiple of `shard_alignment` of the region: a power of two, 64 at least.
  ShardsLayout(const Catalog& catalog, std::span<const torch_file::StatePickle> objects,
               std::uint64_t shard_alignment);

  std::uint64_t record_count() const override { return records_.size(); }
  ByteRange region() const override { return {0, end_}; }
  ByteRange extent(std::uint64_t record) const override;
  ByteRange payload(std::uint64_t record) const override;
  void write_front(std::uint64_t record, std::span<std::byte> into) const override;
  /// What lies between an item and the next is part of the back: zeros.
  void write_back(std::uint64_t record, std::uint32_t crc, std::span<std::byte> into) const override;

  /// The payloads of the records. `tensors[i]` is the source's index of the catalogue's tensor i.
  std::vector<RecordContent> contents(std::span<const std::uint32_t> tensors) const;

  /// A file: bytes [begin, end) of the region.
  struct Shard {
    std::string name;
    ByteRange range;
  };
  std::span<const Shard> shards() const { return shards_; }

  /// The last bytes of objects that hold storages; `crcs` are those of all records' payloads.
  void write_object_tails(std::span<const std::uint32_t> crcs,
                          const std::function<void(std::uint64_t, std::span<const std::byte>)>& write) const;

 private:
  struct Record {
    std::uint64_t begin;  // in the region
    std::uint64_t payload_offset, payload_bytes;
    std::uint32_t entry;     // of the catalogue
    std::uint32_t position;  // of a tensor's chunk; of an object's storage
  };
  bool is_tensor(const Record& record) const { return catalog_.entries()[record.entry].is_tensor; }
  const torch_file::Layout& object(const Record& record) const {
    return object_layouts_[catalog_.entries()[record.entry].index];
  }
  const torch_file::StatePickle& content(const Record& record) const {
    return objects_[catalog_.entries()[record.entry].index];
  }
  BoxView box(const Record& record) const;
  DType dtype(const Record& record) const;
  void add_tensor(std::uint64_t at, std::uint32_t entry, std::uint32_t position);
  void add_object(std::uint64_t at, std::uint32_t entry);
  Bytes object_tail(const Record& record, std::span<const std::uint32_t> crcs) const;

  const Catalog& catalog_;
  const std::span<const torch_file::StatePickle> objects_;
  std::vector<torch_file::Layout> object_layouts_;  // by object
  std::vector<Record> records_;
  std::vector<Shard> shards_;
  std::uint64_t end_ = 0;
};

}  // namespace cairn::dcp
