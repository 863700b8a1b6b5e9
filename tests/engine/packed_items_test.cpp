// SPDX-License-Identifier: BSD-3-Clause
#include "engine/packed_items.hpp"

#include <gtest/gtest.h>

#include "base/byte_writer.hpp"

namespace cairn {
namespace {

// Elements 0, 1, 2, … of a row-major tensor, in memory that has the columns one after the other.
TensorView transposed(std::vector<std::uint32_t>& memory, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t j = 0; j < columns; ++j) {
    for (std::int64_t i = 0; i < rows; ++i) memory.push_back(static_cast<std::uint32_t>(i * columns + j));
  }
  TensorView view = TensorView::contiguous(DType::uint32, {rows, columns}, memory.data());
  view.strides = {1, rows};
  return view;
}

Bytes numbered(std::uint32_t count) {
  ByteWriter out;
  for (std::uint32_t i = 0; i < count; ++i) out.write(i);
  return out.take();
}

TEST(PackedItems, AnyRangeIsThatOfAllItemsInARow) {
  std::vector<std::uint32_t> first, second;
  const Bytes object{std::byte{0xaa}, std::byte{0xbb}, std::byte{0xcc}};
  const PackedItems items({{{}, object},
                           {transposed(first, 5, 7)},
                           {TensorView::contiguous(DType::float64, {0, 3}, nullptr)},
                           {transposed(second, 2, 3)}});
  Bytes all = object;
  for (const Bytes& bytes : {numbered(35), numbered(6)}) all.insert(all.end(), bytes.begin(), bytes.end());
  ASSERT_EQ(items.byte_count(), all.size());
  for (std::size_t begin = 0; begin <= all.size(); ++begin) {
    for (std::size_t end = begin; end <= all.size(); ++end) {
      Bytes found(end - begin);
      items.read(begin, found);
      ASSERT_TRUE(std::equal(found.begin(), found.end(), all.begin() + static_cast<std::ptrdiff_t>(begin)))
          << begin << " to " << end;
    }
  }
}

TEST(PackedItems, PlacesFollowEachOther) {
  std::vector<std::uint32_t> memory;
  const PackedItems items({{{}, Bytes(5)},
                           {TensorView::contiguous(DType::float64, {0, 3}, nullptr)},
                           {transposed(memory, 2, 3)}});
  const auto places = items.places();
  ASSERT_EQ(places.size(), 3u);
  EXPECT_EQ(places[1].byte_offset, 5u);
  EXPECT_EQ(places[1].byte_length, 0u);
  EXPECT_EQ(places[2].byte_offset, 5u);
  EXPECT_EQ(places[2].byte_length, 24u);
  EXPECT_EQ(PackedItems({}).byte_count(), 0u);
}

}  // namespace
}  // namespace cairn
