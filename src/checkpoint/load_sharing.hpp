// SPDX-License-Identifier: BSD-3-Clause
// Boxes that several ranks want alike: who reads what of them, and who gets it from whom. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/byte_writer.hpp"
#include "cairn/device.hpp"
#include "cairn/live_state.hpp"
#include "cairn/load.hpp"
#include "cairn/plan.hpp"
#include "engine/parcel_exchange.hpp"

namespace cairn {

/// Boxes that just these ranks want.
struct SharedGroup {
  std::vector<int> ranks;          ///< ascending, two at least
  std::vector<Fingerprint> boxes;  ///< in the order in which they are read
  bool by_devices = false;         ///< sent on over the link of the devices; `ranks` are all
};

/// What a rank tells the coordinator: the boxes that `items` fill, in their order, and which of them `link`,
/// if there is one, reaches.
Bytes encode_wanted_boxes(const LiveState& state, std::span<const ReadItem> items, const DeviceLink* link);

/// The coordinator, from what all ranks told. Under `automatic` a group is left out when reading it once
/// saves less than kLeastSaving. A box counts as kLeastCost at least: a request, and often the opening of a
/// file, as replicas of small tensors lie in the files of all ranks.
inline constexpr std::uint64_t kLeastSaving = 8 << 20, kLeastCost = 64 << 10;
std::vector<SharedGroup> find_shared_boxes(std::span<const Bytes> wanted_by_rank, ReadOnce read_once);

Bytes encode(std::span<const SharedGroup> groups);
std::vector<SharedGroup> decode_groups(std::span<const std::byte> bytes);

/// What one rank still reads itself, and the parcels that it sends and receives. Boxes are cut into parcels
/// of about kLoadPieceBytes, small ones put together; the ranks of a group read them in turn, and send them
/// on along a binary tree. Those that go by devices are sent on when all ranks have read.
class SharedLoad {
 public:
  SharedLoad(const LiveState& state, std::span<const ReadItem> items, std::span<const SharedGroup> groups);

  /// To be planned and read instead of the state: tensors only.
  const RankState& wanted() const { return wanted_; }
  const TensorView& view(std::uint32_t entry, std::uint32_t box) const {
    return boxes_[first_box_[entry] + box].view;
  }
  /// In the common order.
  std::vector<Parcel> take_parcels() { return std::move(parcels_); }
  /// What goes by devices, in the common order.
  const std::vector<DeviceLink::Piece>& device_pieces() const { return device_pieces_; }
  /// The parcel that a box of wanted() is a part of, and of how many such boxes a parcel is made.
  std::optional<std::size_t> parcel_of(std::uint32_t entry, std::uint32_t box) const;
  std::size_t boxes_of(std::size_t parcel) const { return box_counts_[parcel]; }

 private:
  struct WantedBox {
    std::uint32_t entry;  // of the state
    Box box;
    TensorView view;
    std::size_t parcel;  // or kAlone
  };
  static constexpr std::size_t kAlone = ~std::size_t{0};

  void add_group(const LiveState& state, const SharedGroup& group,
                 std::span<const std::pair<std::uint32_t, std::uint32_t>> boxes);
  void add_part(const LiveState& state, std::pair<std::uint32_t, std::uint32_t> box, const Box& piece);
  void add_device_group(const LiveState& state, const SharedGroup& group,
                        std::span<const std::pair<std::uint32_t, std::uint32_t>> boxes);
  void read_here(const LiveState& state, std::pair<std::uint32_t, std::uint32_t> box, const Box& piece,
                 std::size_t parcel);
  void describe(const LiveState& state);

  RankState wanted_;
  std::vector<WantedBox> boxes_;
  std::vector<std::size_t> first_box_;
  std::vector<Parcel> parcels_;
  std::vector<std::size_t> box_counts_;
  std::vector<DeviceLink::Piece> device_pieces_;
};

}  // namespace cairn
