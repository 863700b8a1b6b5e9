// SPDX-License-Identifier: BSD-3-Clause
// Items against the layout of whole torch files, which has its own comparison with torch;
// tests/interop/run_writer.py compares items with torch's.
#include "formats/dcp/item_writer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "base/crc32.hpp"
#include "cairn/box.hpp"
#include "failure_of.hpp"
#include "formats/dcp/item.hpp"
#include "formats/torch_file/layout.hpp"
#include "formats/torch_file/tensor_nodes.hpp"
#include "pickle/writer.hpp"

namespace cairn::dcp {
namespace {

using pickle::Arena;
using pickle::Value;
using Shape = std::vector<std::int64_t>;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

Bytes pickle_of(DType dtype, const Shape& shape, std::uint64_t bytes) {
  Arena arena;
  torch_file::TensorNodes nodes(arena);
  const std::array id{arena.string("storage"), nodes.storage_class(dtype), arena.string("0"),
                      arena.string("cpu"), nodes.storage_count(dtype, bytes)};
  ByteWriter out;
  pickle::write_protocol2(arena, nodes.tensor(dtype, shape, arena.persistent(arena.tuple(id))), out);
  return out.take();
}

struct Frame {
  Bytes head, tail;
};
Frame frame_of(const TensorItem& item, std::uint32_t crc) {
  Bytes tail(item.tail_bytes());
  item.write_tail(crc, tail);
  return {{item.head().begin(), item.head().end()}, tail};
}

Frame layout_frame(DType dtype, const Shape& shape, std::uint32_t crc) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(element_count(shape)) * element_size(dtype);
  const Bytes pickle = pickle_of(dtype, shape, bytes);
  const torch_file::Layout layout("archive", pickle.size(), {bytes});
  const auto extent = layout.extent(0), payload = layout.payload(0);
  Bytes front(payload.begin - extent.begin), back(extent.end - payload.end);
  layout.write_front(0, front);
  layout.write_back(0, crc, back);
  Frame frame{layout.head(pickle), back};
  frame.head.insert(frame.head.end(), front.begin(), front.end());
  layout.write_tail(pickle, {crc}, [&](std::span<const std::byte> piece) {
    frame.tail.insert(frame.tail.end(), piece.begin(), piece.end());
  });
  EXPECT_EQ(frame.head.size(), payload.begin);
  return frame;
}

void expect_layout(DType dtype, const Shape& shape) {
  const TensorItem item(dtype, shape);
  for (const std::uint32_t crc : {0U, 1U, 0x12345678U, 0xffffffffU}) {
    const std::uint32_t known = item.payload_bytes() == 0 ? 0 : crc;  // there is no other CRC of nothing
    const Frame ours = frame_of(item, crc), theirs = layout_frame(dtype, shape, known);
    EXPECT_TRUE(ours.head == theirs.head && ours.tail == theirs.tail)
        << info(dtype).name << " " << to_string(shape) << " crc " << crc;
  }
  EXPECT_EQ(item.payload_offset() % 64, 0u);
  EXPECT_EQ(item.byte_length(), item.head().size() + item.payload_bytes() + item.tail_bytes());
}

TEST(DcpItemWriter, EveryDTypeAndOddShape) {
  for (auto dtype = DType::boolean; dtype <= DType::bits16;
       dtype = static_cast<DType>(static_cast<int>(dtype) + 1)) {
    for (const Shape& shape : std::vector<Shape>{
             {}, {0}, {1}, {3, 0}, {0, 5, 0}, {7, 16}, {2, 1, 3, 1, 2, 2, 3}, {300, 70000}, {1, 1, 1, 1}}) {
      expect_layout(dtype, shape);
    }
  }
}

TEST(DcpItemWriter, WideSizesBeginWhereTorchsDo) {
  for (const std::int64_t bytes :
       {4 * kGiB - 65, 4 * kGiB - 2, 4 * kGiB - 1, 4 * kGiB, 4 * kGiB + 64, 9 * kGiB}) {
    expect_layout(DType::uint8, {bytes});
  }
  // the payload is narrow, records behind it lie beyond 4 GiB
  const TensorItem below(DType::uint8, Shape{4 * kGiB - 2}), at(DType::uint8, Shape{4 * kGiB - 1});
  EXPECT_EQ(at.payload_offset(), below.payload_offset());
  EXPECT_GT(at.tail_bytes(), below.tail_bytes());
}

TEST(DcpItemWriter, ReadsBackWithoutItsPayload) {
  const Shape shape{3, kGiB};
  const TensorItem item(DType::bfloat16, shape);
  const Frame frame = frame_of(item, 0xabcdef01);
  const std::uint64_t tail_at = item.byte_length() - frame.tail.size();
  const zip::ReadAt read = [&](std::uint64_t at, std::span<std::byte> into) {
    for (std::byte& byte : into) {
      const std::uint64_t from = at++;
      const bool in_payload = from >= frame.head.size() && from < tail_at;
      byte = in_payload ? std::byte{0} : from >= tail_at ? frame.tail[from - tail_at] : frame.head[from];
    }
  };
  const ItemHead head = read_item_head(read, item.byte_length(), "item");
  EXPECT_EQ(head.dtype, DType::bfloat16);
  EXPECT_EQ(head.shape, shape);
  EXPECT_EQ(head.strides, (Shape{kGiB, 1}));
  EXPECT_EQ(head.first_byte, item.payload_offset());
  EXPECT_EQ(head.storage_bytes, item.payload_bytes());
  EXPECT_EQ(head.storage_crc, 0xabcdef01u);
}

TEST(DcpItemWriter, RefusesWhatHasNoSize) {
  EXPECT_EQ(failure_of([] { TensorItem(DType::uint8, Shape{-1}); }).kind(), ErrorKind::corrupt);
  EXPECT_EQ(failure_of([] { TensorItem(DType::int64, Shape{kGiB, kGiB, 2}); }).kind(), ErrorKind::corrupt);
  EXPECT_EQ(failure_of([] {
              TensorItem(DType::uint8, Shape{kGiB, kGiB, 7});
            }).kind(),
            ErrorKind::unsupported);
}

TEST(DcpItemWriter, RememberedItemsAreThoseMadeAnew) {
  TensorItems items;
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t i = 0; i < 5000; ++i) {  // more than are kept
      const Shape shape{i, 2};
      const DType dtype = i % 2 == 0 ? DType::float32 : DType::float64;
      const TensorItem& item = items.of(dtype, shape);
      ASSERT_EQ(item.payload_bytes(), static_cast<std::uint64_t>(i) * 2 * element_size(dtype));
      if (i % 500 == 0) {
        const Frame a = frame_of(item, 7), b = frame_of(TensorItem(dtype, shape), 7);
        EXPECT_TRUE(a.head == b.head && a.tail == b.tail);
      }
    }
  }
  EXPECT_NE(frame_of(items.of(DType::int32, Shape{2}), 0).head,
            frame_of(items.of(DType::float32, Shape{2}), 0).head);
}

Value object_value(Arena& arena) {
  const Value dict = arena.dict();
  const auto set = [&](std::string_view key, Value value) { arena.set_item(dict, arena.string(key), value); };
  set("none", arena.none());
  set("bool", arena.boolean(true));
  set("int", arena.integer(-70000));
  set("float", arena.real(0.1));
  set("bytes", arena.bytes("\xff\0x"));
  const Value list = arena.list();
  arena.append(list, arena.tuple(std::array{arena.string("text"), arena.integer(1)}));
  set("list", list);
  return dict;
}

TEST(DcpItemWriter, ObjectsAreTorchFilesOfTheirPickle) {
  Arena arena;
  const Value value = object_value(arena);
  const Bytes item = object_item(arena, value);
  ByteWriter pickle;
  pickle::write_protocol2(arena, value, pickle);
  const torch_file::Layout layout("archive", pickle.size(), {});
  Bytes expected = layout.head(pickle.view());
  layout.write_tail(pickle.view(), {},
                    [&](auto piece) { expected.insert(expected.end(), piece.begin(), piece.end()); });
  EXPECT_TRUE(item == expected);

  const zip::ReadAt read = [&](std::uint64_t at, std::span<std::byte> into) {
    std::memcpy(into.data(), item.data() + at, into.size());
  };
  Arena other;
  const Value found = ObjectItem(read, item.size(), "object").read(other);
  ByteWriter again;
  pickle::write_protocol2(other, found, again);
  EXPECT_EQ(as_text(again.view()), as_text(pickle.view()));
}

TEST(DcpItemWriter, AnObjectWithStoragesIsRefused) {
  Arena arena;
  const Value list = arena.list();
  arena.append(list, arena.persistent(arena.tuple(std::array{arena.string("storage")})));
  const Error error = failure_of([&] { object_item(arena, list); });
  EXPECT_EQ(error.kind(), ErrorKind::unsupported);
  EXPECT_TRUE(contains(error, "tensors"));
}

}  // namespace
}  // namespace cairn::dcp
