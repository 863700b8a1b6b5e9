// SPDX-License-Identifier: BSD-3-Clause
#include "engine/dequant_source.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <random>

#include "failure_of.hpp"
#include "formats/dcp/bare_source.hpp"
#include "temp_dir.hpp"
#include "tensor/cast.hpp"

namespace cairn {
namespace {

constexpr std::int64_t kRows = 1300, kColumns = 300;

// A float8_e4m3fn, by its definition.
float value_of(std::uint8_t bits) {
  const int exponent = bits >> 3 & 15, fraction = bits & 7;
  if (exponent == 15 && fraction == 7) return std::nanf("");
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
  return static_cast<float>(bits & 128 ? -magnitude : magnitude);
}

class Dequant : public testing::Test {
 protected:
  Dequant() : weights_(kRows * kColumns), scales_(11 * 3) {
    std::mt19937 random(3);
    for (auto& one : weights_) {
      do one = static_cast<std::uint8_t>(random());
      while ((one & 127) == 127);
    }
    for (auto& one : scales_) one = static_cast<float>(random() % 1000) * 0.0137f - 5;
  }

  // Weights in four chunks that meet inside a block, scales in a chunk a row.
  std::unique_ptr<DequantSource> source() {
    Catalog catalog;
    const std::uint32_t file = catalog.add_file("data");
    std::ofstream out(temp_.path() + "/data", std::ios::binary);
    std::uint64_t at = 0;
    const auto chunk = [&](Box box, auto&& element) {
      const std::uint64_t begin = at;
      for (std::int64_t i = 0; i < box.sizes[0]; ++i) {
        for (std::int64_t j = 0; j < box.sizes[1]; ++j) {
          const auto one = element(box.offsets[0] + i, box.offsets[1] + j);
          out.write(reinterpret_cast<const char*>(&one), sizeof one);
          at += sizeof one;
        }
      }
      catalog.add_chunk(box, file, begin, at - begin);
    };
    const std::vector<std::int64_t> shape{kRows, kColumns}, blocks{11, 3};
    const auto weight = [&](std::int64_t i, std::int64_t j) {
      return weights_[static_cast<std::size_t>(i * kColumns + j)];
    };
    catalog.add_tensor(catalog.add_string("w"), DType::float8_e4m3fn, shape);
    for (const Box& box : boxes()) chunk(box, weight);
    catalog.add_tensor(catalog.add_string("w_scale_inv"), DType::float32, blocks);
    for (std::int64_t i = 0; i < 11; ++i) {
      chunk({{i, 0}, {1, 3}},
            [&](std::int64_t row, std::int64_t j) { return scales_[static_cast<std::size_t>(row * 3 + j)]; });
    }
    return std::make_unique<DequantSource>(
        std::make_unique<dcp::BareSource>(posix_file_system(), temp_.path(), std::move(catalog)), true);
  }

  static std::vector<Box> boxes() {
    return {{{0, 0}, {700, 130}},
            {{0, 130}, {700, kColumns - 130}},
            {{700, 0}, {kRows - 700, 130}},
            {{700, 130}, {kRows - 700, kColumns - 130}}};
  }

  std::uint16_t expected(std::int64_t i, std::int64_t j) const {
    const float product = value_of(weights_[static_cast<std::size_t>(i * kColumns + j)]) *
                          scales_[static_cast<std::size_t>(i / 128 * 3 + j / 128)];
    std::uint16_t bits;
    cast(std::as_writable_bytes(std::span(&bits, 1)), DType::bfloat16, std::as_bytes(std::span(&product, 1)),
         DType::float32);
    return bits;
  }

  TempDir temp_;
  std::vector<std::uint8_t> weights_;
  std::vector<float> scales_;
};

TEST_F(Dequant, TheCatalogueHasNoScales) {
  const auto made = source();
  const Catalog& catalog = made->catalog();
  ASSERT_EQ(catalog.tensors().size(), 1u);
  EXPECT_EQ(catalog.name(catalog.tensors()[0]), "w");
  EXPECT_EQ(catalog.tensors()[0].dtype, DType::bfloat16);
  EXPECT_EQ(catalog.tensors()[0].chunk_count, 4u);
  EXPECT_EQ(made->companions(), std::vector<std::string>{"w_scale_inv"});
}

TEST_F(Dequant, AnyRangeOfAnyChunkIsComputed) {
  const auto made = source();
  const TensorInfo& tensor = made->catalog().tensors()[0];
  std::mt19937_64 random(5);
  for (std::uint64_t chunk = 0; chunk < 4; ++chunk) {
    const Box box = boxes()[chunk];
    const auto place = made->locate(tensor, chunk);
    const auto elements = static_cast<std::uint64_t>(box.sizes[0] * box.sizes[1]);
    EXPECT_TRUE(place->row_major);
    EXPECT_EQ(place->storage_bytes, 2 * elements);
    EXPECT_EQ(made->small_item(chunk), std::nullopt);
    for (int round = 0; round < 12; ++round) {
      const std::uint64_t begin = round == 0 ? 0 : random() % elements;
      const std::uint64_t count = round == 0 ? elements : random() % (elements - begin) + 1;
      std::vector<std::uint16_t> found(count);
      made->read(place->file, place->first_byte + 2 * begin, std::as_writable_bytes(std::span(found)));
      std::uint64_t wrong = 0;
      for (std::uint64_t k = 0; k < count; ++k) {
        const auto at = static_cast<std::int64_t>(begin + k);
        const std::int64_t i = box.offsets[0] + at / box.sizes[1], j = box.offsets[1] + at % box.sizes[1];
        if (found[k] != expected(i, j)) ++wrong;
      }
      EXPECT_EQ(wrong, 0u) << "chunk " << chunk << ", " << count << " elements from " << begin;
    }
  }
}

TEST_F(Dequant, HalfAnElementIsRefused) {
  const auto made = source();
  const auto place = made->locate(made->catalog().tensors()[0], 0);
  Bytes bytes(3);
  EXPECT_EQ(failure_of([&] { made->read(place->file, 0, bytes); }).kind(), ErrorKind::invalid_argument);
  EXPECT_EQ(failure_of([&] { made->read(place->file, 1, std::span(bytes).first(2)); }).kind(),
            ErrorKind::invalid_argument);
}

}  // namespace
}  // namespace cairn
