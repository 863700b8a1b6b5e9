// SPDX-License-Identifier: BSD-3-Clause
#include "engine/box_reader.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "cairn/box.hpp"

namespace cairn {
namespace {

/// One file in memory whose int32 elements are numbered; counts what is asked of it.
class NumberedFile : public Source {
 public:
  explicit NumberedFile(std::int64_t elements) : bytes_(static_cast<std::size_t>(elements) * 4) {
    for (std::int32_t i = 0; i < elements; ++i) std::memcpy(&bytes_[static_cast<std::size_t>(i) * 4], &i, 4);
  }
  const Catalog& catalog() const override { return catalog_; }
  std::optional<FileRange> small_item(std::uint64_t) const override { return std::nullopt; }
  std::unique_ptr<ItemLocator> item_locator() override { return nullptr; }
  std::shared_ptr<const ChunkPlace> locate(const TensorInfo&, std::uint64_t) override { return nullptr; }
  void read(std::uint32_t, std::uint64_t byte_offset, std::span<std::byte> into) override {
    ASSERT_LE(byte_offset + into.size(), bytes_.size());
    std::memcpy(into.data(), bytes_.data() + byte_offset, into.size());
    read_bytes_ += into.size();
    ++reads_;
  }
  std::uint64_t copy(std::uint32_t, std::uint64_t, std::uint64_t, File&, std::uint64_t) override { return 0; }
  std::uint64_t read_bytes() const override { return read_bytes_; }
  int reads() const { return reads_; }

 private:
  Catalog catalog_;
  std::vector<std::byte> bytes_;
  std::uint64_t read_bytes_ = 0;
  int reads_ = 0;
};

struct Reading {
  std::vector<std::int32_t> target;
  std::uint64_t read_bytes;
  int reads;
};

Reading read_box(std::vector<CopyDim> dims, std::int64_t source_elements, std::int64_t target_elements) {
  NumberedFile file(source_elements);
  std::vector<std::byte> scratch(64 << 10);
  BoxReader reader(file, scratch);
  Reading result{std::vector<std::int32_t>(static_cast<std::size_t>(target_elements), -1), 0, 0};
  ChunkPlace place;
  place.file = 0;
  reader.read(place, 0, std::move(dims), reinterpret_cast<std::byte*>(result.target.data()), 4);
  result.read_bytes = file.read_bytes();
  result.reads = file.reads();
  return result;
}

void expect_copied(const std::vector<CopyDim>& dims, const std::vector<std::int32_t>& target) {
  std::vector<std::int64_t> sizes;
  for (const CopyDim& dim : dims) sizes.push_back(dim.size);
  const auto strides = contiguous_strides(sizes);
  std::size_t set = 0;
  for (std::int64_t i = 0; i < element_count(sizes); ++i) {
    std::int64_t from = 0, to = 0;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      const auto at = i / strides[d] % sizes[d];
      from += at * dims[d].source_stride;
      to += at * dims[d].target_stride;
    }
    ASSERT_EQ(target[static_cast<std::size_t>(to)], from);
    ++set;
  }
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count_if(target, [](auto v) { return v >= 0; })), set);
}

TEST(BoxReader, AnyOrderOfDimensionsAndAnyGapIsRead) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const std::size_t ndim = 1 + random() % 4;
    std::vector<CopyDim> dims(ndim);
    for (auto& dim : dims) dim.size = 1 + static_cast<std::int64_t>(random() % 20);
    std::vector<std::size_t> order(ndim);
    for (std::size_t d = 0; d < ndim; ++d) order[d] = d;
    std::ranges::shuffle(order, random);
    std::int64_t source = 1 + static_cast<std::int64_t>(random() % 3), target = 1;
    for (const std::size_t d : order)
      dims[d].source_stride = source, source *= dims[d].size + static_cast<std::int64_t>(random() % 3);
    for (std::size_t d = ndim; d-- > 0;) dims[d].target_stride = target, target *= dims[d].size;
    expect_copied(dims, read_box(dims, source + 1, target).target);
  }
}

TEST(BoxReader, ARunOnBothSidesIsOneReadWithoutOverRead) {
  const auto reading = read_box({{100, 500, 500}, {500, 1, 1}}, 50000, 50000);
  EXPECT_EQ(reading.reads, 1);
  EXPECT_EQ(reading.read_bytes, 200000u);
}

TEST(BoxReader, ABandThatFitsTheScratchIsOneRead) {
  const std::vector<CopyDim> columns{{100, 50, 1000}, {50, 1, 1}};
  const auto reading = read_box(columns, 5000, 100000);
  EXPECT_EQ(reading.reads, 1);
  EXPECT_EQ(reading.read_bytes, 20000u);
  expect_copied(columns, reading.target);
}

TEST(BoxReader, LongRunsAreReadStraightIntoTheirRows) {
  const std::vector<CopyDim> rows{{4, 20000, 30000}, {10000, 1, 1}};
  const auto reading = read_box(rows, 80000, 120000);
  EXPECT_EQ(reading.reads, 4);
  EXPECT_EQ(reading.read_bytes, 160000u);
  expect_copied(rows, reading.target);
}

TEST(BoxReader, OverReadIsBoundedBeyondACheapSpan) {
  const std::vector<CopyDim> sparse{{300, 1000, 1}};  // one element in 4000 bytes
  const auto reading = read_box(sparse, 300000, 300);
  EXPECT_LE(reading.read_bytes, 300000u * 4);
  expect_copied(sparse, reading.target);
}

TEST(BoxReader, AStrideOfZeroRepeatsTheElement) {
  const std::vector<CopyDim> repeated{{5, 0, 10}, {10, 1, 1}};
  expect_copied(repeated, read_box(repeated, 10, 50).target);
}

}  // namespace
}  // namespace cairn
