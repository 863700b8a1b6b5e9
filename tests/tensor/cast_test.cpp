// SPDX-License-Identifier: BSD-3-Clause
#include "tensor/cast.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "failure_of.hpp"
#include "tensor/cast_loops.hpp"

namespace cairn {
namespace {

using Bytes = std::vector<std::byte>;

constexpr DType kSources[] = {DType::float64, DType::float32, DType::float16, DType::bfloat16};
constexpr DType kTargets[] = {DType::float32, DType::float16, DType::bfloat16};

struct Fields {
  int exponent, mantissa;
};
Fields fields_of(DType dtype) {
  if (dtype == DType::float64) return {11, 52};
  if (dtype == DType::float32) return {8, 23};
  return dtype == DType::float16 ? Fields{5, 10} : Fields{8, 7};
}

std::uint64_t sign_bit(DType dtype) { return std::uint64_t{1} << (8 * element_size(dtype) - 1); }
std::uint64_t infinity(DType dtype) {
  const auto [exponent, mantissa] = fields_of(dtype);
  return ((std::uint64_t{1} << exponent) - 1) << mantissa;
}
bool is_nan(DType dtype, std::uint64_t bits) { return (bits & ~sign_bit(dtype)) > infinity(dtype); }

// By the definition of the format; infinity counts as the power of two that would follow.
double value_of(DType dtype, std::uint64_t magnitude) {
  const auto [exponent, mantissa] = fields_of(dtype);
  if (dtype == DType::float64) return std::bit_cast<double>(magnitude);
  const auto e = static_cast<int>(magnitude >> mantissa);
  const auto fraction = static_cast<double>(magnitude & ((std::uint64_t{1} << mantissa) - 1));
  const int bias = (1 << (exponent - 1)) - 1;
  const double whole = std::ldexp(1.0, mantissa);
  return std::ldexp(e == 0 ? fraction : fraction + whole, std::max(e, 1) - bias - mantissa);
}

// The nearest magnitude of the target by search among all of them: the midpoint of two neighbours is exact in
// float64, for every target.
std::uint64_t nearest(DType to, double magnitude) {
  std::uint64_t low = 0, high = infinity(to);
  while (low < high) {
    const std::uint64_t middle = (low + high + 1) / 2;
    if (value_of(to, middle) <= magnitude)
      low = middle;
    else
      high = middle - 1;
  }
  if (low == infinity(to)) return low;
  const double half = (value_of(to, low) + value_of(to, low + 1)) / 2;
  return magnitude > half || (magnitude == half && low % 2 == 1) ? low + 1 : low;
}

// What a cast must give; for a NaN only sign, quietness and the kept payload bits that both formats have.
std::uint64_t expected(DType from, DType to, std::uint64_t bits) {
  const std::uint64_t sign = (bits & sign_bit(from)) != 0 ? sign_bit(to) : 0;
  const std::uint64_t magnitude = bits & ~sign_bit(from);
  if (from == to) return bits;
  if (magnitude == infinity(from)) return sign | infinity(to);
  if (!is_nan(from, bits)) return sign | nearest(to, value_of(from, magnitude));
  const int up = fields_of(to).mantissa - fields_of(from).mantissa;
  const std::uint64_t payload = magnitude & ~infinity(from);
  const std::uint64_t quiet = std::uint64_t{1} << (fields_of(to).mantissa - 1);
  return sign | infinity(to) | quiet | (up >= 0 ? payload << up : payload >> -up);
}

Bytes pack(DType dtype, const std::vector<std::uint64_t>& elements) {
  Bytes out(elements.size() * element_size(dtype));
  for (std::size_t i = 0; i < elements.size(); ++i)
    std::memcpy(out.data() + i * element_size(dtype), &elements[i], element_size(dtype));
  return out;
}

std::vector<std::uint64_t> unpack(DType dtype, std::span<const std::byte> bytes) {
  std::vector<std::uint64_t> out(bytes.size() / element_size(dtype));
  for (std::size_t i = 0; i < out.size(); ++i)
    std::memcpy(&out[i], bytes.data() + i * element_size(dtype), element_size(dtype));
  return out;
}

// Every value of the 16-bit types; of the wider ones all that lies around a change of the result: each value
// of each target, the midpoint to the next, with their neighbours; and random bits.
std::vector<std::uint64_t> inputs(DType from) {
  std::vector<std::uint64_t> out;
  if (element_size(from) == 2) {
    for (std::uint64_t bits = 0; bits < 0x10000; ++bits) out.push_back(bits);
    return out;
  }
  const auto bits_of = [&](double value) {
    return from == DType::float64 ? std::bit_cast<std::uint64_t>(value)
                                  : std::bit_cast<std::uint32_t>(static_cast<float>(value));
  };
  const auto add = [&](double value) {
    for (const std::uint64_t near : {bits_of(value) - 1, bits_of(value), bits_of(value) + 1})
      out.insert(out.end(), {near & (sign_bit(from) - 1), (near & (sign_bit(from) - 1)) | sign_bit(from)});
  };
  std::mt19937_64 random(5);
  for (const DType to : kTargets) {
    const std::uint64_t step = to == DType::float32 ? 99'991 : 30;
    for (std::uint64_t bits = 0; bits < infinity(to); bits += 1 + random() % step) {
      add(value_of(to, bits));
      add((value_of(to, bits) + value_of(to, bits + 1)) / 2);
    }
    for (const std::uint64_t last : {infinity(to), infinity(to) - 1}) {
      add(value_of(to, last));
      add((value_of(to, last) + value_of(to, last - 1)) / 2);
    }
  }
  for (const std::uint64_t payload :
       {infinity(from), infinity(from) + 1, sign_bit(from) - 1, std::uint64_t{1}})
    out.insert(out.end(), {payload, payload | sign_bit(from)});
  for (int i = 0; i < 100'000; ++i) out.push_back(random() & (sign_bit(from) | (sign_bit(from) - 1)));
  return out;
}

TEST(Cast, GivesTheNearestValueOnEveryProcessor) {
  for (const DType from : kSources) {
    const auto elements = inputs(from);
    const Bytes source = pack(from, elements);
    for (const DType to : kTargets) {
      std::vector<std::uint64_t> wanted;
      for (const std::uint64_t bits : elements) wanted.push_back(expected(from, to, bits));
      for (const CastCode& code : cast_codes()) {
        SCOPED_TRACE(fmt::format("{} to {}, {}", info(from).name, info(to).name, code.processor));
        Bytes target(elements.size() * element_size(to));
        code.cast(target.data(), to, source.data(), from, elements.size());
        const auto found = unpack(to, target);
        for (std::size_t i = 0; i < elements.size(); ++i)
          ASSERT_EQ(found[i], wanted[i]) << std::hex << "of " << elements[i];
      }
    }
  }
}

TEST(Cast, AllUpperBitsOfFloat32AgreeOnEveryProcessor) {
  // The upper 20 bits in all combinations, the lower 12 at the edges of the roundings.
  constexpr std::uint32_t kLow[] = {0, 1, 0x7ff, 0x800, 0x801, 0xfff};
  std::vector<std::uint64_t> elements;
  for (std::uint32_t high = 0; high < (1u << 20); ++high)
    for (const std::uint32_t low : kLow) elements.push_back((high << 12) | low);
  const Bytes source = pack(DType::float32, elements);
  for (const DType to : kTargets) {
    Bytes plain(elements.size() * element_size(to)), best(plain.size());
    cast_plain(plain.data(), to, source.data(), DType::float32, elements.size());
    cast(best, to, source, DType::float32);
    EXPECT_TRUE(plain == best) << info(to).name;
  }
}

TEST(Cast, TakesAnyLengthAtAnyAddressAndTouchesNothingElse) {
  for (const DType from : kSources) {
    for (const DType to : kTargets) {
      const std::uint64_t in = element_size(from), out = element_size(to);
      for (std::size_t elements = 0; elements < 20; ++elements) {
        std::vector<std::uint64_t> values;
        for (std::size_t i = 0; i < elements; ++i)
          values.push_back(expected(DType::bfloat16, from, 0x3f80 + i));
        Bytes source = pack(from, values), target(elements * out + 2, std::byte{0xa5});
        source.insert(source.begin(), std::byte{1});
        cast(std::span(target).subspan(1, elements * out), to, std::span(source).subspan(1, elements * in),
             from);
        const auto found = unpack(to, std::span(target).subspan(1, elements * out));
        for (std::size_t i = 0; i < elements; ++i) EXPECT_EQ(found[i], expected(from, to, values[i]));
        EXPECT_TRUE(target.front() == std::byte{0xa5} && target.back() == std::byte{0xa5});
      }
    }
  }
}

std::uint64_t cast_one(double value, DType to) {
  Bytes target(element_size(to));
  cast(target, to, std::as_bytes(std::span(&value, 1)), DType::float64);
  return unpack(to, target)[0];
}

TEST(Cast, RoundsFloat64Once) {
  // Just above the middle of 1 and the next value: by way of float32 it would be a tie, and fall to 1.
  EXPECT_EQ(cast_one(1 + 0x1p-8 + 0x1p-40, DType::bfloat16), 0x3f81u);
  EXPECT_EQ(cast_one(1 + 0x1p-11 + 0x1p-40, DType::float16), 0x3c01u);
  EXPECT_EQ(cast_one(0x1p-134 + 0x1p-170, DType::bfloat16), 1u);
  EXPECT_EQ(cast_one(0x1p-25 + 0x1p-60, DType::float16), 1u);
}

TEST(Cast, OverflowsFromHalfAStepBeyondTheLargestValue) {
  EXPECT_EQ(cast_one(65519.99, DType::float16), 0x7bffu);
  EXPECT_EQ(cast_one(65520, DType::float16), 0x7c00u);
  EXPECT_EQ(cast_one(-1e300, DType::bfloat16), 0xff80u);
  EXPECT_EQ(cast_one(std::numeric_limits<double>::denorm_min(), DType::float32), 0u);
}

#ifdef __x86_64__
TEST(Cast, DoesNotDependOnRoundingAndFlushingModes) {
  for (const DType from : kSources) {
    const Bytes source = pack(from, inputs(from));
    for (const DType to : kTargets) {
      for (const CastCode& code : cast_codes()) {
        Bytes usual(source.size() / element_size(from) * element_size(to)), odd(usual.size());
        const auto run = [&](Bytes& target) {
          code.cast(target.data(), to, source.data(), from, source.size() / element_size(from));
        };
        run(usual);
        const unsigned modes = _mm_getcsr();
        _mm_setcsr(modes | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON | _MM_ROUND_UP);
        run(odd);
        _mm_setcsr(modes);
        EXPECT_TRUE(usual == odd) << info(from).name << " to " << info(to).name << ", " << code.processor;
      }
    }
  }
}
#endif

TEST(Cast, RefusesOtherPairsByName) {
  EXPECT_FALSE(can_cast(DType::int64, DType::float32));
  EXPECT_FALSE(can_cast(DType::float32, DType::float64));
  EXPECT_FALSE(can_cast(DType::float8_e4m3fn, DType::bfloat16));
  const Error target = failure_of([] { require_cast(DType::float32, DType::float64); });
  EXPECT_EQ(target.kind(), ErrorKind::invalid_argument);
  EXPECT_TRUE(contains(target, "no casts to float64"));
  const Error source = failure_of([] { require_cast(DType::complex64, DType::float32); });
  EXPECT_EQ(source.kind(), ErrorKind::unsupported);
  EXPECT_TRUE(contains(source, "from complex64 to float32"));
}

TEST(Cast, RefusesSpansThatDoNotFit) {
  Bytes source(12), target(5);
  for (const std::size_t size : {4, 5}) {
    const Error error =
        failure_of([&] { cast(std::span(target).first(size), DType::bfloat16, source, DType::float32); });
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    EXPECT_TRUE(contains(error, "12 bytes of float32"));
  }
}

}  // namespace
}  // namespace cairn
