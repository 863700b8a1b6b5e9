// SPDX-License-Identifier: BSD-3-Clause
#include "tensor/strided_copy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

namespace cairn {
namespace {

struct Side {
  std::vector<std::int64_t> strides;
  std::int64_t held = 1;  // elements that the box spans
};

// Dense strides in a random order of the dimensions, spread by a random gap.
Side random_side(const std::vector<std::int64_t>& sizes, std::mt19937& random) {
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::shuffle(order, random);
  Side side{std::vector<std::int64_t>(sizes.size()), 1 + static_cast<std::int64_t>(random() % 3)};
  for (const std::size_t d : order) {
    side.strides[d] = side.held;
    side.held *= sizes[d];
  }
  return side;
}

// Element by element, by definition; what lies between the elements of the target keeps its bytes.
TEST(StridedCopy, MovesEachElementAndNothingElse) {
  std::mt19937 random(11);
  for (const std::uint64_t element : {1, 2, 4, 8, 16}) {
    for (int round = 0; round < 200; ++round) {
      std::vector<std::int64_t> sizes;
      for (std::size_t d = 0; d < random() % 5; ++d)
        sizes.push_back(static_cast<std::int64_t>(random() % 20 + (round % 7 != 0)));
      const Side from = random_side(sizes, random), to = random_side(sizes, random);
      std::vector<std::byte> source(static_cast<std::size_t>(from.held) * element + 16),
          target(static_cast<std::size_t>(to.held) * element + 16, std::byte{0xee});
      for (auto& byte : source) byte = static_cast<std::byte>(random() & 0x7f);
      auto expected = target;
      std::vector<CopyDim> dims;
      for (std::size_t d = 0; d < sizes.size(); ++d)
        dims.push_back({sizes[d], from.strides[d], to.strides[d]});
      const std::int64_t count =
          std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
      for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t rest = i, at_source = 0, at_target = 0;
        for (std::size_t d = sizes.size(); d-- > 0; rest /= sizes[d]) {
          at_source += rest % sizes[d] * from.strides[d];
          at_target += rest % sizes[d] * to.strides[d];
        }
        std::memcpy(expected.data() + static_cast<std::uint64_t>(at_target) * element,
                    source.data() + static_cast<std::uint64_t>(at_source) * element, element);
      }
      strided_copy(target.data(), source.data(), dims, element);
      ASSERT_TRUE(target == expected) << "element of " << element << " bytes, round " << round;
    }
  }
}

// Around the sizes of a vector and of a block.
TEST(StridedCopy, TransposesAnyRectangle) {
  for (const std::uint64_t element : {1, 2, 4, 8, 16}) {
    for (const std::int64_t rows : {1, 3, 15, 16, 17, 63, 64, 65, 130}) {
      for (const std::int64_t columns : {1, 2, 15, 16, 17, 63, 64, 65, 129}) {
        const std::uint64_t count = static_cast<std::uint64_t>(rows * columns);
        std::vector<std::byte> source(count * element), target(count * element), expected(count * element);
        for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 7 + i / 251);
        for (std::uint64_t i = 0; i < count; ++i) {
          const std::uint64_t row = i / static_cast<std::uint64_t>(columns),
                              column = i % static_cast<std::uint64_t>(columns);
          std::memcpy(&expected[(column * static_cast<std::uint64_t>(rows) + row) * element],
                      &source[i * element], element);
        }
        const std::vector<CopyDim> dims{{rows, columns, 1}, {columns, 1, rows}};
        strided_copy(target.data(), source.data(), dims, element);
        ASSERT_TRUE(target == expected) << rows << " x " << columns << " of " << element << " bytes";
      }
    }
  }
}

TEST(StridedCopy, AStrideOfZeroRepeatsAnElement) {
  const std::vector<std::uint32_t> source{7, 8};
  std::vector<std::uint32_t> target(6);
  const std::vector<CopyDim> dims{{3, 0, 2}, {2, 1, 1}};
  strided_copy(reinterpret_cast<std::byte*>(target.data()), reinterpret_cast<const std::byte*>(source.data()),
               dims, 4);
  EXPECT_EQ(target, (std::vector<std::uint32_t>{7, 8, 7, 8, 7, 8}));
}

}  // namespace
}  // namespace cairn
