// SPDX-License-Identifier: BSD-3-Clause
// Directories as a save would write them, and memory of ranks that load. The content of a tensor is its
// elements' linear indices, cut to the element's bytes; that of an object its name.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/byte_writer.hpp"
#include "base/crc32.hpp"
#include "cairn/live_state.hpp"
#include "cairn/plan.hpp"
#include "dcp_fixture.hpp"
#include "formats/dcp/item_writer.hpp"
#include "formats/dcp/metadata_encoder.hpp"
#include "pickle/plain_object.hpp"
#include "plan/plan_fixture.hpp"
#include "temp_dir.hpp"

namespace cairn {

/// The bytes of a box of a tensor, row-major.
inline Bytes iota_bytes(std::span<const std::int64_t> shape, BoxView box, DType dtype) {
  Bytes bytes(static_cast<std::uint64_t>(element_count(box.sizes)) * element_size(dtype));
  std::byte* at = bytes.data();
  for_each_element(box, [&](const std::vector<std::int64_t>& element) {
    write_element(at, linear(shape, element), element_size(dtype));
    at += element_size(dtype);
  });
  return bytes;
}

/// Writes what a save of these states writes, one rank after the other.
inline void write_planned(const TempDir& dir, const std::string& folder, const std::vector<RankState>& states,
                          const SavePlanOptions& options = {}) {
  const GlobalSavePlan plan = plan_save(states, options);
  std::map<std::string, ByteWriter> files;
  const auto file_name = [](std::size_t rank, std::uint32_t file) {
    return "__" + std::to_string(rank) + "_" + std::to_string(file) + ".distcp";
  };
  std::vector<std::vector<ItemPlace>> places;
  for (std::size_t rank = 0; rank < states.size(); ++rank) {
    places.emplace_back();
    const RankState& state = states[rank];
    for (const WriteItem& item : plan.parts[rank].items()) {
      ByteWriter& out = files[file_name(rank, item.file)];
      const std::uint64_t begin = out.size();
      if (state.is_tensor(item.entry)) {
        const BoxView box = plan.parts[rank].box(state, item);
        const dcp::TensorItem made(state.dtype(item.entry), box.sizes);
        const Bytes payload = iota_bytes(state.shape(item.entry), box, state.dtype(item.entry));
        out.append(made.head());
        out.append(payload);
        Bytes tail(made.tail_bytes());
        made.write_tail(crc32(payload), tail);
        out.append(tail);
      } else {
        pickle::Arena arena;
        out.append(dcp::object_item(arena, arena.string(std::string(state.name(item.entry)))));
      }
      places.back().push_back({begin, out.size() - begin});
    }
  }
  const Catalog catalog = plan.located(
      places, [&](int rank, std::uint32_t file) { return file_name(static_cast<std::size_t>(rank), file); });
  for (const auto& [name, content] : files) dir.write(folder + "/" + name, as_text(content.view()));
  ByteWriter metadata;
  dcp::encode_metadata(catalog, {"made", "00000000-0000-0000-0000-000000000000"}, {},
                       [&](std::span<const std::byte> piece) { metadata.append(piece); });
  dir.write(folder + "/.metadata", as_text(metadata.view()));
}

/// Memory that crashes whoever takes its addresses for the processor's.
class PlayedDevice final : public DeviceMemory {
 public:
  std::byte* allocate(std::size_t bytes) {
    const std::size_t at = memory_.size();
    memory_.resize(at + bytes, std::byte{0xcd});
    return reinterpret_cast<std::byte*>(kBase + at);
  }
  /// What happens in every copy into it from now on, before the bytes arrive.
  void before_copy_in(std::function<void()> happens) { before_copy_in_ = std::move(happens); }

  void copy_out(const std::byte* from, std::span<std::byte> into) override {
    std::ranges::copy(std::span(memory_).subspan(place(from), into.size()), into.begin());
  }
  void copy_in(std::span<const std::byte> bytes, std::byte* to) override {
    if (before_copy_in_) before_copy_in_();
    std::ranges::copy(bytes, memory_.begin() + static_cast<std::ptrdiff_t>(place(to)));
  }

 private:
  static constexpr std::uintptr_t kBase = 64;
  static std::size_t place(const std::byte* address) {
    return reinterpret_cast<std::uintptr_t>(address) - kBase;
  }

  std::vector<std::byte> memory_;
  std::function<void()> before_copy_in_;
};

enum class MemoryKind { contiguous, columns_first, gaps, backwards, device };
inline constexpr MemoryKind kAllMemory[] = {MemoryKind::contiguous, MemoryKind::columns_first,
                                            MemoryKind::gaps, MemoryKind::backwards, MemoryKind::device};

/// What one rank wants, and the memory it is loaded into.
class LoadTarget {
 public:
  explicit LoadTarget(int rank) : state_(rank) {}

  LiveState& state() { return state_; }
  PlayedDevice& device() { return *device_; }

  void add(const std::string& name, DType dtype, const Shape& shape, const std::vector<Box>& boxes,
           MemoryKind kind = MemoryKind::contiguous) {
    std::vector<LiveState::LocalBox> local;
    for (const Box& box : boxes) local.push_back({box, make_view(dtype, box.sizes, kind)});
    for (const auto& [box, view] : local) targets_.push_back({name, shape, box, view});
    state_.add_tensor(name, dtype, shape, local);
  }
  void add(const std::string& name, DType dtype, const TensorLayout& layout,
           MemoryKind kind = MemoryKind::contiguous) {
    const auto shape = layout.shape();
    add(name, dtype, {shape.begin(), shape.end()}, layout.boxes(state_.description().rank()), kind);
  }

  /// Everything has arrived, and nothing beside it.
  void expect_iota() const {
    for (const Target& target : targets_) {
      const bool same = elements(target.view) == iota_bytes(target.shape, target.box, target.view.dtype);
      EXPECT_TRUE(same) << target.name << " " << to_string(target.box) << " on rank "
                        << state_.description().rank();
    }
    for (const auto& [memory, used] : gaps_) {
      for (std::size_t i = 0; i < memory->size(); ++i) {
        if (!used[i] && (*memory)[i] != std::byte{0xcd}) {
          ADD_FAILURE() << "byte " << i << " between the elements was written";
          return;
        }
      }
    }
  }
  void expect_untouched() const {
    for (const Target& target : targets_) {
      EXPECT_TRUE(std::ranges::all_of(elements(target.view), [](std::byte b) {
        return b == std::byte{0xcd};
      })) << target.name;
    }
  }
  Bytes bytes_of(std::size_t target) const { return elements(targets_.at(target).view); }

 private:
  struct Target {
    std::string name;
    Shape shape;
    Box box;
    TensorView view;
  };

  TensorView make_view(DType dtype, const Shape& sizes, MemoryKind kind) {
    const auto element = static_cast<std::int64_t>(element_size(dtype));
    const std::int64_t count = element_count(sizes);
    if (kind == MemoryKind::device) {
      TensorView view =
          TensorView::contiguous(dtype, sizes, device_->allocate(static_cast<std::size_t>(count * element)));
      view.device = device_.get();
      return view;
    }
    const std::int64_t spread = kind == MemoryKind::gaps ? 3 : 1;
    auto& memory = memory_.emplace_back(
        std::make_unique<Bytes>(static_cast<std::size_t>(count * element * spread), std::byte{0xcd}));
    TensorView view{dtype, sizes, contiguous_strides(sizes), memory->data(), nullptr};
    if (kind == MemoryKind::columns_first) {
      std::int64_t stride = 1;
      for (std::size_t d = 0; d < sizes.size(); ++d) {
        view.strides[d] = stride;
        stride *= std::max<std::int64_t>(sizes[d], 1);
      }
    }
    for (std::int64_t& stride : view.strides) stride *= spread;
    if (kind == MemoryKind::backwards && !sizes.empty() && count > 0) {
      view.data += (sizes[0] - 1) * view.strides[0] * element;
      view.strides[0] = -view.strides[0];
    }
    if (kind == MemoryKind::gaps) note_gaps(view, *memory);
    return view;
  }
  void note_gaps(const TensorView& view, const Bytes& memory) {
    std::vector<bool> used(memory.size(), false);
    for_each_element(Box{Shape(view.sizes.size(), 0), view.sizes}, [&](const Shape& at) {
      const auto place = static_cast<std::size_t>(view.data + offset(view, at) - memory.data());
      for (std::size_t b = 0; b < element_size(view.dtype); ++b) used[place + b] = true;
    });
    gaps_.emplace_back(&memory, std::move(used));
  }
  static std::int64_t offset(const TensorView& view, const Shape& at) {
    std::int64_t elements = 0;
    for (std::size_t d = 0; d < at.size(); ++d) elements += at[d] * view.strides[d];
    return elements * static_cast<std::int64_t>(element_size(view.dtype));
  }
  static Bytes elements(const TensorView& view) {
    Bytes out(view.byte_count());
    if (out.empty()) return out;
    if (view.device != nullptr) {
      view.device->copy_out(view.data, out);
      return out;
    }
    std::byte* to = out.data();
    for_each_element(Box{Shape(view.sizes.size(), 0), view.sizes}, [&](const Shape& at) {
      to = std::copy_n(view.data + offset(view, at), element_size(view.dtype), to);
    });
    return out;
  }

  LiveState state_;
  std::unique_ptr<PlayedDevice> device_ = std::make_unique<PlayedDevice>();
  std::vector<std::unique_ptr<Bytes>> memory_;
  std::vector<std::pair<const Bytes*, std::vector<bool>>> gaps_;
  std::deque<Target> targets_;
};

}  // namespace cairn
